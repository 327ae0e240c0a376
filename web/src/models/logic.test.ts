import { describe, expect, it } from "vitest";

import type { Plan, Pull } from "../api/types";
import { canResume, hitsOf, isActive, memoryShares, pullText, shareOf, speedOf } from "./logic";

const GIB = 2 ** 30;

function plan(values: Partial<Plan> = {}): Plan {
  return {
    verdict: "streams", file_bytes: 20 * GIB, n_ctx: 4096, threads: 2, n_expert: 128,
    memory: {
      available: 12 * GIB, source: "machine", floor: GIB, dense: 2 * GIB,
      context: { kv: GIB / 2, recurrent: 0, compute: GIB / 2 }, checkpoint: 0, snapshots: 0, draft_context: 0,
      draft_dense: 0, page_tables: 0, left_for_experts: 8 * GIB, experts: 18 * GIB, layer_demand: 1, token_demand: 1,
      cliff: 1, auto_cache: 8 * GIB, limited_by: "memory",
    },
    disk: null,
    estimate: { hit_rate: [0.4, 0.7], tok_s: [2.9, 4.1], tok_s_resident: 10, tok_s_no_cache: 1 },
    notes: [],
    ...values,
  };
}

function pull(values: Partial<Pull>): Pull {
  return { id: "p", reference: "a/b", state: "fetching", bytes_total: 4 * GIB, bytes_done: GIB, bytes_per_s: null, path: null, error: null, ...values };
}

describe("a plan", () => {
  it("shares the memory out without loss, and leaves out what is nothing", () => {
    const shares = memoryShares(plan());
    expect(shares.map(({ name }) => name)).toEqual(["dense weights", "context and buffers", "expert cache", "left alone"]);
    expect(shares.reduce((sum, share) => sum + share.bytes, 0)).toBe(12 * GIB);
  });

  it("does not give a cache more than all experts", () => {
    const small = plan();
    small.memory.experts = GIB;
    expect(memoryShares(small).find(({ name }) => name === "expert cache")?.bytes).toBe(GIB);
    expect(memoryShares(small).find(({ name }) => name === "free")?.bytes).toBe(7 * GIB);
  });

  it("says a range, or one number, or nothing", () => {
    expect(speedOf(plan())).toBe("about 2.9 to 4.1 tok/s");
    expect(hitsOf(plan())).toBe("40.0 % to 70.0 %");
    const sure = { hit_rate: [1, 1], tok_s: [500, 500], tok_s_resident: 500, tok_s_no_cache: 1 };
    expect(speedOf(plan({ estimate: sure as Plan["estimate"] }))).toBe("about 500 tok/s");
    expect(hitsOf(plan({ estimate: sure as Plan["estimate"] }))).toBe("100 %");
    expect(speedOf(plan({ estimate: null }))).toBeNull();
  });
});

describe("a pull", () => {
  it("says how far it is and how long it takes", () => {
    expect(shareOf(pull({}))).toBe(0.25);
    expect(shareOf(pull({ bytes_total: null }))).toBeNull();
    expect(pullText(pull({}))).toBe("1,024 MiB of 4,096 MiB");
    expect(pullText(pull({ bytes_per_s: GIB / 10 }))).toBe("1,024 MiB of 4,096 MiB · 102 MiB/s · 30 s left");
    expect(pullText(pull({ state: "failed", error: "no such repository" }))).toBe("no such repository");
  });

  it("can be cancelled while it runs and resumed when it does not, unless it is done", () => {
    expect(isActive(pull({ state: "listing" }))).toBe(true);
    for (const state of ["cancelled", "failed", "interrupted"] as const) {
      expect([isActive(pull({ state })), canResume(pull({ state }))]).toEqual([false, true]);
    }
    expect([isActive(pull({ state: "done" })), canResume(pull({ state: "done" }))]).toEqual([false, false]);
  });
});
