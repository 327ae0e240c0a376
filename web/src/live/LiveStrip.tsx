/** The live panel in one line, for narrow screens; a tap opens all of it. */

import { percent, rate } from "../lib/format";
import { useStore } from "../lib/store";
import { live } from "../state/live";
import { Icon } from "../ui/Icon";
import { shares } from "./figures";

export function LiveStrip({ onOpen }: { onOpen: () => void }) {
  const { samples } = useStore(live);
  const now = samples.at(-1);
  if (now === undefined) return null;
  return (
    <button type="button" className="live-strip" onClick={onOpen} aria-label="Show live figures">
      <span className="num">
        <b>{rate(now.effective_tok_s)}</b> tok/s
      </span>
      <span className="strip-bar" aria-hidden="true">
        {shares(now).map(({ name, colour, share }) => (
          <span key={name} style={{ width: `${share}%`, background: `var(${colour})` }} />
        ))}
      </span>
      {now.hit_pct !== null && <span className="num">{percent(now.hit_pct)} hits</span>}
      <Icon name="pulse" size={18} />
    </button>
  );
}
