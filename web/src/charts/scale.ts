/** Arithmetic of charts: round numbers for axes, paths out of values. */

export type Values = readonly (number | null)[];

/** Ticks at 1, 2 or 5 times a power of ten, from 0 (or from `low`) to at least `high`. */
export function ticks(high: number, wanted = 4, low = 0): number[] {
  if (!(high > low) || !Number.isFinite(high)) return [low, low + 1];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10) * power;
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => round((first + i) * step));
}

function round(value: number): number {
  return Number.parseFloat(value.toPrecision(12));
}

export function largest(series: readonly Values[]): number {
  let most = 0;
  for (const values of series) {
    for (const value of values) if (value !== null && value > most) most = value;
  }
  return most;
}

/** A top for the axis that a single outlier does not set: what lies above it is cut off. */
export function comfortableTop(values: Values): number {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  const max = known.at(-1) ?? 0;
  const high = known[Math.floor(0.98 * (known.length - 1))] ?? 0;
  return max > 3 * high && high > 0 ? 1.5 * high : max;
}

/** Sums from the bottom up: the upper edge of each layer. Nothing counts as nothing. */
export function stack(series: readonly Values[]): number[][] {
  const edges: number[][] = [];
  for (const values of series) {
    const below = edges.at(-1);
    edges.push(values.map((value, i) => (below?.[i] ?? 0) + (value ?? 0)));
  }
  return edges;
}

export interface Frame {
  x: (index: number) => number;
  y: (value: number) => number;
}

/** A line with gaps where there is no value. */
export function linePath(values: Values, { x, y }: Frame): string {
  let path = "";
  let pen = false;
  values.forEach((value, i) => {
    if (value === null) {
      pen = false;
      return;
    }
    path += `${pen ? "L" : "M"}${fixed(x(i))} ${fixed(y(value))}`;
    pen = true;
  });
  return path;
}

/** The area between two edges. */
export function areaPath(upper: readonly number[], lower: readonly number[] | null, frame: Frame): string {
  if (upper.length === 0) return "";
  const there = upper.map((value, i) => `${fixed(frame.x(i))} ${fixed(frame.y(value))}`);
  const back = upper
    .map((_, i) => `${fixed(frame.x(i))} ${fixed(frame.y(lower?.[i] ?? 0))}`)
    .reverse();
  return `M${there.join("L")}L${back.join("L")}Z`;
}

function fixed(value: number): string {
  return value.toFixed(1);
}

/** Every n-th index, so that not more than `most` labels stand on an axis. */
export function xTicks(count: number, most: number): number[] {
  if (count <= 1) return [0];
  const [, step = 1] = ticks(count - 1, most);
  const whole = Math.max(1, Math.round(step));
  return Array.from({ length: Math.floor((count - 1) / whole) + 1 }, (_, i) => i * whole);
}
