/** Short messages at the edge of the screen, and words that only a screen reader says. */

import { messageOf } from "../api/client";
import { createStore, useStore } from "../lib/store";
import { Icon } from "./Icon";

interface Notice {
  id: number;
  kind: "info" | "error";
  text: string;
}

const SHOWN_MS = { info: 4000, error: 9000 };

const notices = createStore<Notice[]>([]);
const spoken = createStore("");
let last = 0;

function dismiss(id: number): void {
  notices.set((all) => all.filter((notice) => notice.id !== id));
}

export function notify(text: string, kind: Notice["kind"] = "info"): void {
  const notice = { id: ++last, kind, text };
  notices.set((all) => [...all.filter((other) => other.text !== text).slice(-2), notice]);
  window.setTimeout(() => dismiss(notice.id), SHOWN_MS[kind]);
}

/** Run something that a person asked for; what goes wrong is said, not swallowed. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    notify(messageOf(error), "error");
    return undefined;
  }
}

/** For screen readers alone. Said once: a growing text would never let them finish. */
export function announce(text: string): void {
  spoken.set("");
  window.setTimeout(() => spoken.set(text), 50);
}

export function NoticeHost() {
  const shown = useStore(notices);
  const words = useStore(spoken);
  return (
    <>
      <div className="visually-hidden" role="status" aria-live="polite">
        {words}
      </div>
      <div className="notices" role="region" aria-label="Notifications" aria-live="polite">
        {shown.map((notice) => (
          <div key={notice.id} className={`notice ${notice.kind}`}>
            <Icon name={notice.kind === "error" ? "warning" : "check"} size={18} />
            <span>{notice.text}</span>
            <button
              type="button"
              className="icon-button small"
              aria-label="Dismiss"
              onClick={() => dismiss(notice.id)}
            >
              <Icon name="close" size={16} />
            </button>
          </div>
        ))}
      </div>
    </>
  );
}
