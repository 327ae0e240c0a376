/** What a switch means on the screen: does it apply, how is its value written, what did someone type. */

import type { SettingSchema, SettingValue, SettingValues } from "../api/types";
import { capital } from "../lib/format";

export const GROUPS: readonly { group: string; title: string; intro: string }[] = [
  { group: "draft", title: "Drafting", intro: "Guess a few tokens cheaply and let the model verify them together." },
  { group: "sampling", title: "Answers", intro: "How the next token is chosen, and how long an answer may be." },
  { group: "server", title: "Conversations", intro: "What every conversation of the app begins with." },
  { group: "streaming", title: "Expert streaming", intro: "How experts come from disk, and how much memory they may take." },
  { group: "memory", title: "Compute and memory", intro: "Threads, context, and how everything but the experts is held." },
];

/** The groups with their switches; a group that this app does not know stands at the end. */
export function grouped(schema: readonly SettingSchema[]): { title: string; intro: string; group: string; shown: SettingSchema[]; folded: SettingSchema[] }[] {
  const known = new Set(GROUPS.map(({ group }) => group));
  const others = [...new Set(schema.map(({ group }) => group))].filter((group) => !known.has(group));
  const all = [...GROUPS, ...others.map((group) => ({ group, title: capital(group), intro: "" }))];
  return all
    .map((one) => {
      const members = schema.filter(({ group }) => group === one.group);
      return {
        ...one,
        shown: members.filter(({ experimental }) => !experimental),
        folded: members.filter(({ experimental }) => experimental),
      };
    })
    .filter(({ shown, folded }) => shown.length + folded.length > 0);
}

/** Whether a switch has an effect beside the others. */
export function applies(setting: SettingSchema, values: SettingValues): boolean {
  return Object.entries(setting.applies_if ?? {}).every(([key, wanted]) =>
    wanted.includes(values[key] ?? null),
  );
}

/** Why it has none, for people. */
export function whyNot(setting: SettingSchema, schema: readonly SettingSchema[]): string {
  const parts = Object.entries(setting.applies_if ?? {}).map(([key, wanted]) => {
    const other = schema.find((one) => one.key === key);
    const names = wanted.map((value) => choiceName(value, other?.null_means ?? null));
    return `${other?.label ?? key} is ${names.join(" or ")}`;
  });
  return `Applies where ${parts.join(" and ")}.`;
}

const NAMES: Record<string, string> = { none: "off", mtp: "MTP head", ngram: "n-gram" };

export function choiceName(value: SettingValue, nullMeans: string | null = null): string {
  if (value === null) return nullMeans ?? "automatic";
  if (value === true) return "on";
  if (value === false) return "off";
  return NAMES[String(value)] ?? String(value);
}

export type Parsed = { value: SettingValue } | { error: string };

/** What was typed into the field of a number; nothing is no value, where there may be none. */
export function parseNumber(setting: SettingSchema, text: string): Parsed {
  const trimmed = text.trim().replace(",", ".");
  if (trimmed === "" || trimmed.toLowerCase() === setting.null_means) {
    return setting.nullable ? { value: null } : { error: "A number is needed here." };
  }
  const value = Number(trimmed);
  if (!Number.isFinite(value)) return { error: `“${text.trim()}” is not a number.` };
  if (setting.kind === "int" && !Number.isInteger(value)) return { error: "A whole number is needed here." };
  const { minimum, maximum } = setting;
  if ((minimum !== null && value < minimum) || (maximum !== null && value > maximum)) {
    return { error: `Must be ${rangeOf(setting)}.` };
  }
  return { value };
}

export function rangeOf({ minimum, maximum }: SettingSchema): string {
  if (minimum !== null && maximum !== null) return `from ${minimum} to ${maximum}`;
  if (minimum !== null) return `${minimum} or more`;
  return maximum !== null ? `at most ${maximum}` : "a number";
}
