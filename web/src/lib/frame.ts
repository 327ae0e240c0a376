/**
 * Work that is done once a frame however often it is asked for, so that fast tokens cost little;
 * and less often where a frame takes long to draw, so that most of the time is left for the person.
 */

const HIDDEN_PAUSE_MS = 250;
const FRAME_MS = 17;

/** How long to rest after a frame that took `ms` to draw: twice as long as it was late. */
export function restAfter(ms: number): number {
  return ms <= 1.5 * FRAME_MS ? 0 : Math.min(2 * (ms - FRAME_MS), HIDDEN_PAUSE_MS);
}

/** `pause` says how many milliseconds to rest at least, for work that is known to be long. */
export function oncePerFrame(work: () => void, pause: () => number = () => 0): { ask(): void; now(): void } {
  let frame = 0;
  let timer = 0;
  let notBefore = 0;
  function now(): void {
    if (frame) cancelAnimationFrame(frame);
    if (timer) window.clearTimeout(timer);
    frame = timer = 0;
    work();
    const begun = performance.now();
    requestAnimationFrame((drawn) => {
      notBefore = drawn + Math.max(restAfter(drawn - begun), Math.min(pause(), HIDDEN_PAUSE_MS));
    });
  }
  return {
    ask() {
      if (frame || timer) return;
      const rest = notBefore - performance.now();
      // No frames are drawn for a page that nobody sees.
      if (document.hidden) timer = window.setTimeout(now, HIDDEN_PAUSE_MS);
      else if (rest > 0) timer = window.setTimeout(now, rest);
      else frame = requestAnimationFrame(now);
    },
    now,
  };
}
