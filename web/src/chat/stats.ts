/** The line under an answer: what it cost, in as few words as possible. */

import type { Message } from "../api/types";
import { mebibytes, percent, plural, rate } from "../lib/format";

type Stats = Record<string, unknown> | null;

function statNumber(stats: Stats, key: string): number | null {
  const value = stats?.[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function partOf(stats: Stats, key: string): Stats {
  const part = stats?.[key];
  return typeof part === "object" && part !== null ? (part as Record<string, unknown>) : null;
}

export function statLine(stats: Stats): string[] {
  const summary = partOf(stats, "summary");
  if (summary === null) return [];
  const parts: string[] = [];
  const tokens = statNumber(summary, "generated_tokens");
  if (tokens !== null) parts.push(plural(tokens, "token"));
  const speed = statNumber(summary, "tok_s");
  if (speed !== null) parts.push(`${rate(speed)} tok/s`);
  const hit = statNumber(summary, "hit_pct");
  if (hit !== null) parts.push(`${percent(hit)} hits`);
  const read = statNumber(summary, "mib_per_token");
  if (read !== null) parts.push(`${mebibytes(read)}/token`);
  const accepted = statNumber(partOf(summary, "speculation"), "acceptance_pct");
  if (accepted !== null) parts.push(`${percent(accepted)} of drafts accepted`);
  return parts;
}

/** The recording of this answer, if there is one. */
export function runOf(stats: Stats): string | null {
  const run = stats?.["run"];
  return typeof run === "string" ? run : null;
}

/** Why an answer ended before the model was done, if it did. */
export function endNote(state: Message["state"], stats: Stats): string | null {
  if (state === "failed") return "Broken off";
  if (state === "stopped") return "Stopped";
  if (state === "running") return "Being written elsewhere";
  return stats?.["finish_reason"] === "length" ? "Ended at the limit of tokens" : null;
}
