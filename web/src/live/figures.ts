/** The live numbers by name, and the parts of a token's time with their colours. */

import type { TurnMetrics } from "../api/types";

export const PARTS = [
  { key: "stall_ms", name: "stall", colour: "--part-stall", help: "Compute waited for experts to come from disk" },
  { key: "compute_ms", name: "compute", colour: "--part-compute", help: "Arithmetic" },
  { key: "draft_ms", name: "draft", colour: "--part-draft", help: "Guessing the next tokens" },
  { key: "other_ms", name: "other", colour: "--part-other", help: "Choosing the token, text, and everything else" },
] as const;

export type MetricKey = Exclude<keyof TurnMetrics, "index">;

export function valuesOf(samples: readonly TurnMetrics[], key: MetricKey): (number | null)[] {
  return samples.map((sample) => sample[key] ?? null);
}

/** Whether anything was drafted: only then do acceptance and tokens per pass mean something. */
export function drafts(samples: readonly TurnMetrics[]): boolean {
  return samples.some(({ acceptance_pct }) => acceptance_pct !== null);
}

/** Shares of a token's time, in percent, in the order of the stack. */
export function shares(sample: TurnMetrics | undefined): { name: string; colour: string; share: number }[] {
  if (sample === undefined) return [];
  const total = PARTS.reduce((sum, { key }) => sum + (sample[key] ?? 0), 0);
  if (total <= 0) return [];
  return PARTS.map(({ key, name, colour }) => ({
    name,
    colour,
    share: (100 * (sample[key] ?? 0)) / total,
  }));
}
