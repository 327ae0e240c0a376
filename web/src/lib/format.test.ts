import { describe, expect, it } from "vitest";

import { NONE, bytes, cell, mebibytes, number, percent, plural, seconds, when } from "./format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [0.0312, "0.031"],
    [0.5, "0.50"],
    [3.14159, "3.14"],
    [42.25, "42.3"],
    [412.6, "413"],
    [12345.6, "12,346"],
    [16, "16"],
  ])("%f is %s", (value, text) => expect(number(value)).toBe(text));

  it("writes a dash, never a zero, for what is not there", () => {
    for (const format of [number, percent, mebibytes, bytes, seconds]) {
      expect(format(null)).toBe(NONE);
      expect(format(undefined)).toBe(NONE);
      expect(format(Number.NaN)).toBe(NONE);
    }
    expect(cell("")).toBe(NONE);
    expect(percent(0)).toBe("0 %");
  });

  it("chooses units", () => {
    expect(bytes(512)).toBe("512 B");
    expect(bytes(28 * 1024)).toBe("28 KiB");
    expect(bytes(11029504)).toBe("10.5 MiB");
    expect(bytes(20 * 2 ** 30)).toBe("20.0 GiB");
    expect(mebibytes(9000)).toBe("9,000 MiB");
    expect(seconds(0.25)).toBe("250 ms");
    expect(seconds(600)).toBe("10 min");
  });

  it("counts things", () => {
    expect(plural(1, "token")).toBe("1 token");
    expect(plural(1200, "token")).toBe("1,200 tokens");
  });

  it("writes cells", () => {
    expect(cell(true)).toBe("yes");
    expect(cell([3, 1])).toBe("3, 1");
    expect(cell(1234567)).toBe("1,234,567");
    expect(cell(4096)).toBe("4096");
  });
});

describe("when", () => {
  const now = new Date("2025-06-12T15:00:00");
  const ago = (ms: number): number => (now.getTime() - ms) / 1000;
  it.each([
    [5_000, "just now"],
    [5 * 60_000, "5 min ago"],
    [3 * 3_600_000, "12:00"],
    [30 * 3_600_000, "Wed 09:00"],
    [30 * 86_400_000, "13 May"],
    [400 * 86_400_000, "8 May 2024"],
  ])("%d ms ago is %s", (ms, text) => expect(when(ago(ms), now)).toBe(text));

  it("does not fail on what is no date", () => {
    expect(when("nonsense", now)).toBe(NONE);
    expect(when(null, now)).toBe(NONE);
  });
});
