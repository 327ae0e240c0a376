/** The last few minutes of telemetry, for the panel beside an answer. */

import type { TurnMetrics } from "../api/types";
import { createStore } from "../lib/store";

export interface Live {
  /** Oldest first; samples of the turn that runs, or of the last one. */
  samples: readonly TurnMetrics[];
  running: boolean;
}

export const MOST_SAMPLES = 240;

export const live = createStore<Live>({ samples: [], running: false });

/** A sample whose index is smaller than the last one's belongs to another turn. */
export function withSample(current: Live, sample: TurnMetrics): Live {
  const last = current.samples.at(-1);
  if (last !== undefined && sample.index === last.index) return current;
  const fresh = last === undefined || sample.index < last.index;
  const kept = fresh ? [] : current.samples;
  return { ...current, samples: [...kept, sample].slice(-MOST_SAMPLES) };
}

export function addSample(sample: TurnMetrics): void {
  live.set((current) => withSample(current, sample));
}

export function setRunning(running: boolean): void {
  live.set((current) => ({ samples: running ? [] : current.samples, running }));
}
