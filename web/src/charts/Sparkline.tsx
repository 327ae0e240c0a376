/** A line without axes, beside the number that it is the past of. */

import { type Values, comfortableTop, linePath } from "./scale";

export function Sparkline(props: { values: Values; colour?: string; top?: number; width?: number; height?: number }) {
  const { values, width = 84, height = 26, colour = "--accent" } = props;
  const top = props.top ?? (comfortableTop(values) || 1);
  const frame = {
    x: (i: number) => 1 + (values.length > 1 ? (i / (values.length - 1)) * (width - 2) : 0),
    y: (value: number) => height - 2 - (Math.min(value, top) / top) * (height - 4),
  };
  return (
    <svg className="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path d={linePath(values, frame)} style={{ stroke: `var(${colour})` }} />
    </svg>
  );
}
