/** Horizontal bars with their numbers: a few values that are compared with each other. */

import { number } from "../lib/format";

export interface Bar {
  label: string;
  value: number | null;
  colour?: string;
  note?: string;
}

export function Bars(props: { title: string; unit: string; bars: readonly Bar[]; top?: number }) {
  const top = props.top ?? Math.max(0, ...props.bars.map(({ value }) => value ?? 0));
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title">
          {props.title} <span className="unit">{props.unit}</span>
        </span>
      </figcaption>
      <ul className="bars">
        {props.bars.map((bar) => (
          <li key={bar.label}>
            <span className="bar-label">{bar.label}</span>
            <span className="bar-track" aria-hidden="true">
              <span
                className="bar-fill"
                style={{
                  width: `${top > 0 ? (100 * Math.min(bar.value ?? 0, top)) / top : 0}%`,
                  background: `var(${bar.colour ?? "--accent"})`,
                }}
              />
            </span>
            <span className="bar-value num">
              {number(bar.value)}
              {bar.note !== undefined && <small> {bar.note}</small>}
            </span>
          </li>
        ))}
      </ul>
    </figure>
  );
}
