/** A key of a recording; what it means is a tap, a click or a key press away. */

import { useEffect, useId, useRef, useState } from "react";

import { useStore } from "../lib/store";
import type { Place } from "../api/types";
import { attempt } from "../ui/notices";
import { glossary, loadGlossary } from "./glossary";

export function useGlossary(): void {
  useEffect(() => void attempt(loadGlossary), []);
}

/** `place`: where it stands; some keys mean something else in a row than in a summary. */
export function Key({ name, place }: { name: string; place: Place }) {
  const entry = useStore(glossary, (all) => all?.get(name) ?? null);
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  const id = useId();
  useEffect(() => {
    if (!open) return undefined;
    function outside(event: PointerEvent): void {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setOpen(false);
    }
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const note = entry?.where[place] ?? Object.values(entry?.where ?? {})[0];
  if (entry === null || note === undefined) return <code>{name}</code>;
  return (
    <span
      ref={box}
      className="key"
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
    >
      <button
        type="button"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setOpen(false);
        }}
      >
        {name}
      </button>
      {open && (
        <span id={id} role="note" className="key-note">
          {note.meaning}
          {entry.unit !== "" && <span className="key-unit">in {entry.unit}</span>}
          {note.unmeasured !== "" && <span className="key-none">No value if {note.unmeasured}.</span>}
        </span>
      )}
    </span>
  );
}
