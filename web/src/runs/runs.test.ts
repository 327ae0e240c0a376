import { describe, expect, it } from "vitest";

import type { GlossaryEntry, RunSeries } from "../api/types";
import { acceptanceBars, breaksOf, overlaid } from "./charts";
import { found, meaningsOf } from "./glossary";

function series(values: Partial<RunSeries>): RunSeries {
  return {
    x: [0, 1, 2, 3], tokens: 4, window: 1, effective_tok_s: [1, 2, 3, 4], tok_s: [], hit_pct: [], mib_per_token: [],
    parts: { compute: [], stall: [], draft: [], other: [] },
    ms_per_token: { compute: 0, stall: 0, draft: 0, other: 0 },
    turns: [], confirmed: [], offered_at: [], accepted_at: [], ...values,
  };
}

describe("curves of several runs", () => {
  it("share the tokens of the longest, and end where they end", () => {
    const long = series({ tokens: 8, x: [0, 2, 4, 6], effective_tok_s: [10, 20, 30, 40] });
    const { x, series: drawn } = overlaid([series({}), long], ["a", "b"], "effective_tok_s");
    expect(x).toEqual([0, 2, 4, 6]);
    expect(drawn.map(({ name, values }) => [name, values])).toEqual([
      ["a", [1, 3, null, null]],
      ["b", [10, 20, 30, 40]],
    ]);
    expect(drawn[0]?.colour).not.toBe(drawn[1]?.colour);
  });

  it("leave out runs in which nothing was measured", () => {
    expect(overlaid([series({})], ["a"], "hit_pct").series).toEqual([]);
  });

  it("mark where a turn begins", () => {
    expect(breaksOf(series({ x: [0, 10, 20, 30], turns: [15, 30, 99] }))).toEqual([2, 3]);
  });

  it("show acceptance by position; what was never offered has none", () => {
    expect(acceptanceBars(series({ offered_at: [10, 0], accepted_at: [7, 0] }))).toEqual([
      { label: "position 1", value: 70, note: "of 10" },
      { label: "position 2", value: null, note: "of 0" },
    ]);
  });
});

describe("the glossary", () => {
  const entry = (name: string, where: GlossaryEntry["where"]): GlossaryEntry => ({ name, unit: "ms", meaning: "", where });
  const same = entry("wall_ms", { token: { meaning: "Time inside decode.", unmeasured: "" } });
  const both = entry("turn", {
    token: { meaning: "Number of the turn.", unmeasured: "" },
    done: { meaning: "Number, or none.", unmeasured: "the line covers all" },
  });

  it("says where a key means what, if it means different things", () => {
    expect(meaningsOf(same)).toEqual([{ place: null, meaning: "Time inside decode.", unmeasured: "" }]);
    expect(meaningsOf(both).map(({ place }) => place)).toEqual(["In a row", "In a summary"]);
  });

  it("is searched by all words, in names and meanings", () => {
    expect(found([same, both], "TIME decode")).toEqual([same]);
    expect(found([same, both], "ms")).toEqual([same, both]);
    expect(found([same, both], "time turn")).toEqual([]);
  });
});
