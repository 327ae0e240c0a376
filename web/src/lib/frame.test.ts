import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { oncePerFrame, restAfter } from "./frame";

/** A browser that draws every 16 ms, or as late as `late` says. */
let time = 0;
let frames: ((now: number) => void)[] = [];

function draw(ms = 16): void {
  time += ms;
  vi.advanceTimersByTime(ms);
  const due = frames;
  frames = [];
  for (const callback of due) callback(time);
}

beforeEach(() => {
  time = 0;
  frames = [];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("performance", { now: () => time });
  vi.stubGlobal("requestAnimationFrame", (callback: (now: number) => void) => frames.push(callback));
  vi.stubGlobal("cancelAnimationFrame", () => undefined);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("once per frame", () => {
  it("does the work once, however often it was asked for", () => {
    const work = vi.fn();
    const flush = oncePerFrame(work);
    for (let i = 0; i < 50; i += 1) flush.ask();
    expect(work).not.toHaveBeenCalled();
    draw();
    expect(work).toHaveBeenCalledTimes(1);
    flush.ask();
    draw();
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("rests after a frame that took long", () => {
    const work = vi.fn();
    const flush = oncePerFrame(work);
    flush.ask();
    draw();
    draw(117); // what was drawn took a hundred milliseconds too long
    for (let i = 0; i < 12; i += 1) {
      flush.ask();
      draw();
    }
    expect(work).toHaveBeenCalledTimes(1);
    flush.ask();
    draw(16);
    expect(work).toHaveBeenCalledTimes(2);
  });

  it("goes on for a page that nobody sees", () => {
    vi.stubGlobal("document", { hidden: true });
    const work = vi.fn();
    oncePerFrame(work).ask();
    vi.advanceTimersByTime(1000);
    expect(work).toHaveBeenCalledTimes(1);
  });

  it("rests not at all where frames are on time, and never for long", () => {
    expect(restAfter(16.7)).toBe(0);
    expect(restAfter(67)).toBe(100);
    expect(restAfter(5000)).toBe(250);
  });
});
