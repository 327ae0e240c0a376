/** What every key of a recording means, from the server's schema. */

import { json } from "../api/client";
import type { GlossaryEntry, Place } from "../api/types";
import { createStore } from "../lib/store";

export type Glossary = ReadonlyMap<string, GlossaryEntry>;

export const glossary = createStore<Glossary | null>(null);

let asked: Promise<void> | null = null;

export function loadGlossary(): Promise<void> {
  asked ??= json<GlossaryEntry[]>("/api/glossary").then(
    (entries) => glossary.set(new Map(entries.map((entry) => [entry.name, entry]))),
    (error: unknown) => {
      asked = null;
      throw error;
    },
  );
  return asked;
}

const PLACES: Record<Place, string> = { token: "In a row", load: "In the settings", done: "In a summary" };

/** What an entry means; `place` says where, if it means different things in different places. */
export function meaningsOf(entry: GlossaryEntry): { place: string | null; meaning: string; unmeasured: string }[] {
  const all = (Object.keys(PLACES) as Place[]).flatMap((place) => {
    const note = entry.where[place];
    return note === undefined ? [] : [{ place: PLACES[place], ...note }];
  });
  const different = all.filter(({ meaning }, i) => all.findIndex((other) => other.meaning === meaning) === i);
  return different.length > 1 ? different : different.map((one) => ({ ...one, place: null }));
}

/** Entries in whose name or meaning all words of the search occur. */
export function found(entries: Iterable<GlossaryEntry>, search: string): GlossaryEntry[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return [...entries].filter((entry) => {
    const meanings = meaningsOf(entry).map(({ meaning }) => meaning);
    const text = [entry.name, entry.unit, ...meanings].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
