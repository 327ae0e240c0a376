import { describe, expect, it } from "vitest";

import type { SettingSchema } from "../api/types";
import { applies, grouped, parseNumber, whyNot } from "./logic";

function setting(values: Partial<SettingSchema>): SettingSchema {
  return {
    key: "x", label: "X", help: "", kind: "int", choices: null, choice_help: {}, minimum: null, maximum: null,
    default: 0, nullable: false, group: "draft", experimental: false, lossy: false, takes: "reload",
    null_means: null, applies_if: null, ...values,
  };
}

const SOURCE = setting({ key: "draft_source", label: "Draft source", kind: "choice", choices: ["none", "mtp", "ngram"] });
const P_MIN = setting({ key: "mtp_p_min", kind: "float", minimum: 0, maximum: 1, applies_if: { draft_source: ["mtp"] } });
const WIDTH = setting({ key: "draft", applies_if: { draft_source: ["mtp", "ngram"] } });

describe("a switch", () => {
  it("applies where the others are as it needs them", () => {
    expect(applies(P_MIN, { draft_source: "mtp" })).toBe(true);
    expect(applies(P_MIN, { draft_source: "ngram" })).toBe(false);
    expect(applies(WIDTH, { draft_source: "ngram" })).toBe(true);
    expect(applies(WIDTH, { draft_source: "none" })).toBe(false);
    expect(applies(setting({ applies_if: { cache_mb: [null] } }), { cache_mb: null })).toBe(true);
    expect(applies(SOURCE, {})).toBe(true);
  });

  it("says why it does not", () => {
    expect(whyNot(WIDTH, [SOURCE])).toBe("Applies where Draft source is MTP head or n-gram.");
    const cache = setting({ key: "cache_mb", label: "Cache", null_means: "auto" });
    expect(whyNot(setting({ applies_if: { cache_mb: [null] } }), [cache])).toBe("Applies where Cache is auto.");
  });

  it("stands in its group, folded if it is experimental, and an unknown group is not lost", () => {
    const groups = grouped([SOURCE, setting({ experimental: true }), setting({ group: "new things" })]);
    expect(groups.map(({ title, shown, folded }) => [title, shown.length, folded.length])).toEqual([
      ["Drafting", 1, 1],
      ["New things", 1, 0],
    ]);
  });
});

describe("what is typed into a number", () => {
  const cache = setting({ minimum: 0, nullable: true, null_means: "auto" });
  it.each([
    [cache, "", { value: null }],
    [cache, "auto", { value: null }],
    [cache, " 512 ", { value: 512 }],
    [cache, "-1", { error: "Must be 0 or more." }],
    [cache, "1.5", { error: "A whole number is needed here." }],
    [cache, "lots", { error: "“lots” is not a number." }],
    [P_MIN, "0,25", { value: 0.25 }],
    [P_MIN, "2", { error: "Must be from 0 to 1." }],
    [P_MIN, "", { error: "A number is needed here." }],
    [P_MIN, "Infinity", { error: "“Infinity” is not a number." }],
  ])("%#: %s", (schema, text, expected) => expect(parseNumber(schema, text)).toEqual(expected));
});
