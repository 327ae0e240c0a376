/** What the model thought before it answered: folded away once the answer begins. */

import { useEffect, useState } from "react";

import { plural } from "../lib/format";
import { Icon } from "../ui/Icon";

export function Thinking({ text, active }: { text: string; active: boolean }) {
  const [open, setOpen] = useState(active);
  useEffect(() => setOpen(active), [active]);
  const words = text.trim().split(/\s+/).length;
  return (
    <details
      className={`thinking ${active ? "active" : ""}`}
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <Icon name="thought" size={17} />
        <span>{active ? "Thinking…" : `Thought for ${plural(words, "word")}`}</span>
        <Icon name="chevron" size={16} />
      </summary>
      <div className="thinking-text">{text.trim()}</div>
    </details>
  );
}
