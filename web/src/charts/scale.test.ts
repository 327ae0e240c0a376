import { describe, expect, it } from "vitest";

import { areaPath, comfortableTop, linePath, stack, ticks, xTicks } from "./scale";

const FRAME = { x: (i: number) => i * 10, y: (value: number) => 100 - value };

describe("ticks", () => {
  it.each([
    [2.6, [0, 1, 2, 3]],
    [100, [0, 50, 100]],
    [0.31, [0, 0.1, 0.2, 0.3, 0.4]],
    [412, [0, 200, 400, 600]],
  ])("reach over %d", (high, expected) => expect(ticks(high)).toEqual(expected));

  it("are never a division by zero", () => {
    expect(ticks(0)).toEqual([0, 1]);
    expect(ticks(Number.NaN)).toEqual([0, 1]);
    expect(xTicks(0, 5)).toEqual([0]);
    expect(xTicks(1, 5)).toEqual([0]);
  });

  it("stand on whole tokens", () => {
    expect(xTicks(4, 8)).toEqual([0, 1, 2, 3]);
    expect(xTicks(300, 6)).toEqual([0, 50, 100, 150, 200, 250]);
  });
});

describe("shapes", () => {
  it("leave gaps in a line where there is no value", () => {
    expect(linePath([1, 2, null, 4], FRAME)).toBe("M0.0 99.0L10.0 98.0M30.0 96.0");
  });

  it("stack layers; nothing counts as nothing", () => {
    expect(stack([[1, 2], [3, null]])).toEqual([[1, 2], [4, 2]]);
    expect(areaPath([4, 2], [1, 2], FRAME)).toBe("M0.0 96.0L10.0 98.0L10.0 98.0L0.0 99.0Z");
    expect(areaPath([], null, FRAME)).toBe("");
  });

  it("do not let one outlier set the axis", () => {
    const values = [...Array.from({ length: 200 }, () => 2), 500];
    expect(comfortableTop(values)).toBe(3);
    expect(comfortableTop([1, 2, 3])).toBe(3);
    expect(comfortableTop([null])).toBe(0);
  });
});
