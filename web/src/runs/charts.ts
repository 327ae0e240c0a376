/** From the curves of runs to what the charts draw. */

import type { Numbers, Part, RunSeries } from "../api/types";
import type { Series } from "../charts/Chart";

/** From the bottom up; waiting stands first because it is what one wants to get rid of. */
export const RUN_PARTS: readonly { part: Part; colour: string }[] = [
  { part: "stall", colour: "--part-stall" },
  { part: "compute", colour: "--part-compute" },
  { part: "draft", colour: "--part-draft" },
  { part: "other", colour: "--part-other" },
];

const COLOURS = 6;

export function runColour(index: number): string {
  return `--run-${(index % COLOURS) + 1}`;
}

/** Points at which a turn begins. */
export function breaksOf({ x, turns }: RunSeries): number[] {
  return turns.map((token) => x.findIndex((first) => first >= token)).filter((i) => i > 0);
}

export type Curve = "effective_tok_s" | "tok_s" | "hit_pct" | "mib_per_token";

/** One curve of several runs, over the points of the longest one. */
export function overlaid(runs: readonly RunSeries[], labels: readonly string[], curve: Curve): { x: number[]; series: Series[] } {
  const tokens = Math.max(1, ...runs.map((run) => run.tokens));
  const points = Math.min(tokens, Math.max(1, ...runs.map(({ x }) => x.length)));
  const x = Array.from({ length: points }, (_, i) => Math.floor((i * tokens) / points));
  const series = runs.map((run, i) => ({
    name: labels[i] ?? `run ${i + 1}`,
    colour: runColour(i),
    values: at(run, run[curve], x),
  }));
  return { x, series: series.filter(({ values }) => values.some((value) => value !== null)) };
}

/** The values of a run's points at other tokens; none past its end. */
function at(run: RunSeries, values: Numbers, x: readonly number[]): Numbers {
  let point = 0;
  return x.map((token) => {
    if (token >= run.tokens || values.length === 0) return null;
    while (point + 1 < run.x.length && (run.x[point + 1] ?? Infinity) <= token) point += 1;
    return values[point] ?? null;
  });
}

/** Share of drafts that were confirmed at each position, in percent. */
export function acceptanceBars({ offered_at, accepted_at }: RunSeries): { label: string; value: number | null; note: string }[] {
  return offered_at.map((offered, i) => ({
    label: `position ${i + 1}`,
    value: offered > 0 ? (100 * (accepted_at[i] ?? 0)) / offered : null,
    note: `of ${offered}`,
  }));
}
