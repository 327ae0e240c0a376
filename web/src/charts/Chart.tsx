/**
 * A chart over tokens: lines, or layers on top of each other. SVG without a library; a pointer on
 * it reads the values off, and so do the arrow keys.
 */

import { type KeyboardEvent, type PointerEvent, useId, useRef, useState } from "react";

import { number } from "../lib/format";
import { useWidth } from "../lib/useWidth";
import {
  type Values,
  areaPath,
  comfortableTop,
  largest,
  linePath,
  stack,
  ticks,
  xTicks,
} from "./scale";

export interface Series {
  name: string;
  /** A custom property of the theme, such as `--part-stall`. */
  colour: string;
  values: Values;
  dashed?: boolean;
}

interface Props {
  title: string;
  unit: string;
  kind: "lines" | "layers";
  series: readonly Series[];
  /** What an index along the axis is called; the index itself if nothing is given. */
  x?: readonly number[];
  xLabel?: string;
  height?: number;
  /** Top of the axis, for shares of a whole. */
  top?: number;
  /** Indices where something new begins, such as a turn. */
  breaks?: readonly number[];
  note?: string | undefined;
  legend?: boolean;
}

const LEFT = 46;
const RIGHT = 12;
const ABOVE = 8;
const BELOW = 24;

export function Chart(props: Props) {
  const { series, kind, height = 200, x, breaks = [] } = props;
  const [box, width] = useWidth<HTMLDivElement>(320);
  const [at, setAt] = useState<number | null>(null);
  const titleId = useId();
  const plot = useRef<SVGSVGElement>(null);
  const count = Math.max(0, ...series.map(({ values }) => values.length));
  const edges = kind === "layers" ? stack(series.map(({ values }) => values)) : null;
  const highest =
    edges === null
      ? Math.max(0, ...series.map(({ values }) => comfortableTop(values)))
      : comfortableTop(edges.at(-1) ?? []);
  const yTicks = ticks(props.top ?? (highest || 1));
  const top = props.top ?? yTicks.at(-1) ?? 1;
  const inner = Math.max(width - LEFT - RIGHT, 40);
  const plotHeight = height - ABOVE - BELOW;
  const frame = {
    x: (i: number) => LEFT + (count > 1 ? (i / (count - 1)) * inner : inner / 2),
    y: (value: number) => ABOVE + plotHeight * (1 - Math.min(value, top * 1.02) / top),
  };
  const name = (i: number): string => String(x?.[i] ?? i);
  const cut = largest(edges ?? series.map(({ values }) => values)) > top * 1.02;

  function point(event: PointerEvent<SVGSVGElement>): void {
    const left = plot.current?.getBoundingClientRect().left ?? 0;
    const share = (event.clientX - left - LEFT) / inner;
    setAt(Math.min(Math.max(Math.round(share * (count - 1)), 0), count - 1));
  }

  function press(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") setAt(null);
    if (step === undefined || count === 0) return;
    event.preventDefault();
    setAt((old) => Math.min(Math.max((old ?? -1) + step, 0), count - 1));
  }

  const shown = at !== null && at < count ? at : null;
  return (
    <figure className="chart" aria-labelledby={titleId}>
      <figcaption>
        <span id={titleId} className="chart-title">
          {props.title} <span className="unit">{props.unit}</span>
        </span>
        {props.legend !== false && (
          <ul className="legend">
            {series.map((one) => (
              <li key={one.name}>
                <Swatch colour={one.colour} dashed={one.dashed ?? false} /> {one.name}
                {shown !== null && <b className="num"> {number(one.values[shown])}</b>}
              </li>
            ))}
          </ul>
        )}
      </figcaption>
      <div ref={box} className="chart-box">
        <svg
          ref={plot}
          width={width}
          height={height}
          role="img"
          tabIndex={0}
          aria-label={summaryOf(props, count)}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => setAt(null)}
          onKeyDown={press}
          onBlur={() => setAt(null)}
        >
          {yTicks
            .filter((tick) => tick <= top)
            .map((tick) => (
              <g key={tick}>
                <line className="grid" x1={LEFT} x2={width - RIGHT} y1={frame.y(tick)} y2={frame.y(tick)} />
                <text className="tick" x={LEFT - 7} y={frame.y(tick) + 4} textAnchor="end">
                  {number(tick)}
                </text>
              </g>
            ))}
          {xTicks(count, Math.max(2, Math.floor(inner / 90))).map((i) => (
            <text key={i} className="tick" x={frame.x(i)} y={height - 7} textAnchor={i === 0 ? "start" : "middle"}>
              {name(i)}
            </text>
          ))}
          {breaks.map((i) => (
            <line key={i} className="break" x1={frame.x(i)} x2={frame.x(i)} y1={ABOVE} y2={ABOVE + plotHeight} />
          ))}
          {edges === null
            ? series.map((one) => (
                <path
                  key={one.name}
                  className="line"
                  d={linePath(one.values, frame)}
                  style={{ stroke: `var(${one.colour})` }}
                  strokeDasharray={one.dashed ? "5 4" : undefined}
                />
              ))
            : series.map((one, i) => (
                <path
                  key={one.name}
                  d={areaPath(edges[i] ?? [], edges[i - 1] ?? null, frame)}
                  style={{ fill: `var(${one.colour})` }}
                />
              ))}
          {shown !== null && (
            <line className="cursor" x1={frame.x(shown)} x2={frame.x(shown)} y1={ABOVE} y2={ABOVE + plotHeight} />
          )}
        </svg>
      </div>
      <p className="chart-foot">
        <span>{props.xLabel ?? "token"}{shown !== null && <b className="num"> {name(shown)}</b>}</span>
        <span>
          {cut && "outliers reach above the chart"}
          {cut && props.note !== undefined && "; "}
          {props.note}
        </span>
      </p>
    </figure>
  );
}

export function Swatch({ colour, dashed = false }: { colour: string; dashed?: boolean }) {
  const style = dashed ? { borderTopColor: `var(${colour})` } : { background: `var(${colour})` };
  return <span className={`swatch ${dashed ? "dashed" : ""}`} style={style} aria-hidden="true" />;
}

/** What a person sees at a glance, in words. */
function summaryOf({ title, unit, series }: Props, count: number): string {
  const parts = series.map(({ name, values }) => {
    const known = values.filter((value): value is number => value !== null);
    if (known.length === 0) return `${name}: not measured`;
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return `${name}: mean ${number(mean)}, from ${number(Math.min(...known))} to ${number(Math.max(...known))}`;
  });
  return `${title} in ${unit || "numbers"} over ${count} points. ${parts.join(". ")}.`;
}
