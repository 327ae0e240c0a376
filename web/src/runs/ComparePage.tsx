/** Several runs side by side: what they came to, what differs, and their curves on top of each other. */

import { useState } from "react";

import { json } from "../api/client";
import type { Comparison } from "../api/types";
import { Bars } from "../charts/Bars";
import { Chart, Swatch } from "../charts/Chart";
import { cell, number } from "../lib/format";
import { hrefOf } from "../lib/route";
import { useLoad } from "../lib/useLoad";
import { Icon } from "../ui/Icon";
import { Failed, Page, Spinner } from "../ui/parts";
import { GlossaryView } from "./GlossaryView";
import { Key, useGlossary } from "./Key";
import { Notices } from "./Notices";
import { type Curve, RUN_PARTS, overlaid, runColour } from "./charts";

export default function ComparePage({ ids }: { ids: readonly string[] }) {
  const query = ids.map(encodeURIComponent).join(",");
  const comparison = useLoad(`compare ${query}`, (signal) =>
    json<Comparison>(`/api/runs/compare?ids=${query}`, { signal }),
  );
  useGlossary();
  return (
    <Page
      title={`${ids.length} runs compared`}
      intro={
        <a className="back-link" href={hrefOf({ page: "runs", id: null, compare: null })}>
          <Icon name="back" size={16} /> All runs
        </a>
      }
    >
      {comparison.error !== null ? (
        <Failed message={comparison.error} retry={comparison.reload} />
      ) : comparison.value === null ? (
        <Spinner label="Comparing…" />
      ) : (
        <ComparisonView comparison={comparison.value} ids={ids} />
      )}
    </Page>
  );
}

const CURVES: readonly { curve: Curve; title: string; unit: string; top?: number }[] = [
  { curve: "effective_tok_s", title: "Effective rate", unit: "tok/s" },
  { curve: "hit_pct", title: "Hit rate", unit: "%", top: 100 },
  { curve: "mib_per_token", title: "Experts read", unit: "MiB/token" },
];

function ComparisonView({ comparison, ids }: { comparison: Comparison; ids: readonly string[] }) {
  const { labels, series } = comparison;
  return (
    <>
      <Notices notices={comparison.notices} />
      <ol className="run-legend" aria-label="The runs">
        {labels.map((label, i) => (
          <li key={ids[i]}>
            <Swatch colour={runColour(i)} />
            <a href={hrefOf({ page: "runs", id: ids[i] ?? null, compare: null })}>{label}</a>
          </li>
        ))}
      </ol>
      <section className="charts" aria-label="Charts">
        <div className="card">
          <Bars
            title="Effective rate"
            unit="tok/s"
            bars={labels.map((label, i) => ({ label, value: effectiveRate(comparison, i), colour: runColour(i) }))}
          />
        </div>
        <div className="card">
          <PartBars comparison={comparison} />
        </div>
        {CURVES.map(({ curve, title, unit, top }) => {
          const drawn = overlaid(series, labels, curve);
          if (drawn.series.length === 0) return null;
          return (
            <div key={curve} className="card wide">
              <Chart title={title} unit={unit} kind="lines" x={drawn.x} series={drawn.series} {...(top === undefined ? {} : { top })} />
            </div>
          );
        })}
      </section>
      <CompareTable comparison={comparison} />
      <GlossaryView />
    </>
  );
}

function effectiveRate({ rows }: Comparison, run: number): number | null {
  const value = rows.find(({ key, kind }) => key === "tok_s" && kind === "summary")?.values[run];
  return typeof value === "number" ? value : null;
}

/** Where the time of a token goes, one bar a run. */
function PartBars({ comparison: { labels, series } }: { comparison: Comparison }) {
  const totals = series.map(({ ms_per_token }) =>
    RUN_PARTS.reduce((sum, { part }) => sum + (ms_per_token[part] ?? 0), 0),
  );
  const top = Math.max(...totals, 1e-9);
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title">
          Time of a token <span className="unit">ms</span>
        </span>
        <ul className="legend">
          {RUN_PARTS.map(({ part, colour }) => (
            <li key={part}>
              <Swatch colour={colour} /> {part}
            </li>
          ))}
        </ul>
      </figcaption>
      <ul className="bars">
        {series.map(({ ms_per_token }, i) => (
          <li key={labels[i]}>
            <span className="bar-label">{labels[i]}</span>
            <span
              className="bar-track"
              role="img"
              aria-label={RUN_PARTS.map(({ part }) => `${part} ${number(ms_per_token[part])} ms`).join(", ")}
            >
              {RUN_PARTS.map(({ part, colour }) => (
                <span key={part} className="bar-fill" style={{ width: `${(100 * (ms_per_token[part] ?? 0)) / top}%`, background: `var(${colour})` }} />
              ))}
            </span>
            <span className="bar-value num">{number(totals[i])}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function CompareTable({ comparison: { labels, rows } }: { comparison: Comparison }) {
  const [all, setAll] = useState(false);
  const shown = rows.filter(({ kind, differs }) => all || kind === "summary" || differs);
  return (
    <section className="card">
      <div className="section-head">
        <h2>Side by side</h2>
        <label className="inline-switch">
          <input type="checkbox" role="switch" className="switch" checked={all} onChange={(event) => setAll(event.target.checked)} />
          Settings that are the same, too
        </label>
      </div>
      <div className="table-scroll" tabIndex={0} role="group" aria-label="The runs side by side">
        <table className="compare-table">
          <thead>
            <tr>
              <th scope="col">Key</th>
              {labels.map((label, i) => (
                <th key={label} scope="col">
                  <Swatch colour={runColour(i)} /> {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ key, kind, values, differs }) => (
              <tr key={`${kind} ${key}`} className={kind === "setting" && differs ? "differs" : ""}>
                <th scope="row">
                  <Key name={key} place={kind === "summary" ? "done" : "load"} />
                </th>
                {values.map((value, i) => (
                  <td key={labels[i]} className="num">
                    {cell(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
