import { describe, expect, it } from "vitest";

import type { Pull, TurnMetrics } from "../api/types";
import { drafts, shares, valuesOf } from "../live/figures";
import { MOST_SAMPLES, type Live, withSample } from "./live";
import { withPull } from "./server";

function sample(index: number, values: Partial<TurnMetrics> = {}): TurnMetrics {
  return {
    index, tok_s: 2, effective_tok_s: 1, stall_ms: 1, compute_ms: 2, draft_ms: null, other_ms: 1, hit_pct: 50,
    mib_per_token: 1, acceptance_pct: null, tokens_per_pass: null, rss_mib: 1, cache_budget_mib: 1, ...values,
  };
}

const EMPTY: Live = { samples: [], running: true };

describe("live samples", () => {
  it("are kept in order, the oldest forgotten, each index once", () => {
    let live = EMPTY;
    for (let i = 0; i < MOST_SAMPLES + 20; i += 1) live = withSample(live, sample(i));
    live = withSample(live, sample(MOST_SAMPLES + 19));
    expect(live.samples).toHaveLength(MOST_SAMPLES);
    expect(live.samples[0]?.index).toBe(20);
  });

  it("begin anew with another turn", () => {
    const live = withSample(withSample(EMPTY, sample(40)), sample(3));
    expect(live.samples.map(({ index }) => index)).toEqual([3]);
  });
});

describe("figures", () => {
  it("share a token's time; what was not measured takes none", () => {
    expect(shares(sample(1)).map(({ share }) => share)).toEqual([25, 50, 0, 25]);
    expect(shares(undefined)).toEqual([]);
    expect(shares(sample(1, { stall_ms: 0, compute_ms: 0, other_ms: null }))).toEqual([]);
  });

  it("keep gaps, and know whether anything was drafted", () => {
    expect(valuesOf([sample(1), sample(2, { hit_pct: null })], "hit_pct")).toEqual([50, null]);
    expect(drafts([sample(1)])).toBe(false);
    expect(drafts([sample(1), sample(2, { acceptance_pct: 0 })])).toBe(true);
  });
});

describe("pulls", () => {
  const pull = (id: string, bytes_done: number): Pull => ({
    id, reference: "a/b", state: "fetching", bytes_total: 10, bytes_done, bytes_per_s: null, path: null, error: null,
  });
  it("are updated in place, new ones first", () => {
    const all = withPull(withPull([], pull("a", 1)), pull("b", 1));
    expect(withPull(all, pull("a", 7)).map(({ id, bytes_done }) => [id, bytes_done])).toEqual([["b", 1], ["a", 7]]);
    expect(withPull(all, { ...pull("b", 1), state: "deleted" }).map(({ id }) => id)).toEqual(["a"]);
  });
});
