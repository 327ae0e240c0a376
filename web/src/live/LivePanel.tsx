/** The live panel: a column where there is room, a sheet from the bottom where there is none. */

import { useStore } from "../lib/store";
import { useMedia } from "../lib/useMedia";
import { live } from "../state/live";
import { Dialog } from "../ui/Dialog";
import { LiveContent } from "./LiveContent";

export function LivePanel({ open, onClose }: { open: boolean; onClose: () => void }) {
  const wide = useMedia("(min-width: 1180px)");
  const running = useStore(live, (current) => current.running);
  const empty = useStore(live, (current) => current.samples.length === 0);
  const title = running ? "Live" : empty ? "Live figures" : "Last answer";
  if (wide) {
    return (
      <aside className="live" aria-label="Live figures">
        <h2 className="live-title">
          <span className={`pulse ${running ? "on" : ""}`} aria-hidden="true" />
          {title}
        </h2>
        <LiveContent />
      </aside>
    );
  }
  if (!open) return null;
  return (
    <Dialog title={title} onClose={onClose} className="sheet">
      <div className="live">
        <LiveContent />
      </div>
    </Dialog>
  );
}
