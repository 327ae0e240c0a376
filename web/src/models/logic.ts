/** What a plan and a pull mean for the person who reads them. */

import type { Plan, Pull, Verdict } from "../api/types";
import { bytes, percent } from "../lib/format";

export const VERDICTS: Record<Verdict, { title: string; says: string; tone: "good" | "warn" | "bad" }> = {
  resident: { title: "Runs, all in memory", says: "Everything fits: no expert is read twice.", tone: "good" },
  streams: { title: "Runs, streamed", says: "Experts are read from disk as they are needed.", tone: "good" },
  thrashes: { title: "Runs, but slowly", says: "The cache is smaller than what one token needs, so every expert is read again for every token.", tone: "warn" },
  "too-big": { title: "Does not run here", says: "Not even one layer’s experts fit beside the dense weights.", tone: "bad" },
  "not-streamable": { title: "Does not run here", says: "It does not fit into memory and cannot be streamed.", tone: "bad" },
};

export interface MemoryShare {
  name: string;
  bytes: number;
  colour: string;
}

/** Where the memory would go, in the order of the bar; what is nothing is left out. */
export function memoryShares({ memory }: Plan): MemoryShare[] {
  const { context } = memory;
  const working = context.kv + context.recurrent + context.compute + memory.checkpoint + memory.snapshots + memory.draft_context + memory.page_tables;
  const cache = Math.min(memory.auto_cache, memory.experts);
  const dense = memory.dense + memory.draft_dense;
  const used = memory.floor + dense + working + cache;
  return [
    { name: "dense weights", bytes: dense, colour: "--run-1" },
    { name: "context and buffers", bytes: working, colour: "--run-4" },
    { name: "expert cache", bytes: cache, colour: "--run-3" },
    { name: "left alone", bytes: memory.floor, colour: "--part-other" },
    { name: "free", bytes: Math.max(0, memory.available - used), colour: "--track" },
  ].filter((share) => share.bytes > 0);
}

/** "about 2.9 to 4.1 tok/s", or one number where both ends are the same. */
export function speedOf({ estimate }: Plan): string | null {
  if (estimate === null) return null;
  const [low, high] = estimate.tok_s.map(roughly) as [string, string];
  return low === high ? `about ${low} tok/s` : `about ${low} to ${high} tok/s`;
}

/** An estimate is not known to more than two digits. */
function roughly(value: number): string {
  return Number(value.toPrecision(2)).toLocaleString("en");
}

export function hitsOf({ estimate }: Plan): string | null {
  if (estimate === null) return null;
  const [low, high] = estimate.hit_rate.map((share) => percent(100 * share)) as [string, string];
  return low === high ? low : `${low} to ${high}`;
}

const ACTIVE = new Set<Pull["state"]>(["waiting", "listing", "fetching"]);

export function isActive(pull: Pull): boolean {
  return ACTIVE.has(pull.state);
}

export function canResume(pull: Pull): boolean {
  return pull.state === "cancelled" || pull.state === "failed" || pull.state === "interrupted";
}

export function shareOf(pull: Pull): number | null {
  return pull.bytes_total === null || pull.bytes_total <= 0 ? null : pull.bytes_done / pull.bytes_total;
}

export function pullText(pull: Pull): string {
  const perSecond = pull.bytes_per_s;
  const of = pull.bytes_total === null ? bytes(pull.bytes_done) : `${bytes(pull.bytes_done)} of ${bytes(pull.bytes_total)}`;
  switch (pull.state) {
    case "waiting":
      return "Waiting for its turn";
    case "listing":
      return "Looking at the repository…";
    case "fetching": {
      if (perSecond === null || perSecond <= 0) return of;
      const left = pull.bytes_total === null ? "" : ` · ${leftText((pull.bytes_total - pull.bytes_done) / perSecond)} left`;
      return `${of} · ${bytes(Math.round(perSecond))}/s${left}`;
    }
    case "done":
      return pull.bytes_total === null ? "Done" : `Done, ${bytes(pull.bytes_total)}`;
    case "cancelled":
      return `Cancelled at ${of}. What was fetched is kept.`;
    case "interrupted":
      return `Interrupted at ${of}: the server was stopped. What was fetched is kept.`;
    case "failed":
      return pull.error ?? "Failed";
    case "deleted":
      return "";
  }
}

function leftText(seconds: number): string {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
