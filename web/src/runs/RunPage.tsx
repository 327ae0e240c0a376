/** One run: what it came to, its charts, its settings, and its rows. */

import { json } from "../api/client";
import type { Cell, RunDetail, RunSeries } from "../api/types";
import { Bars } from "../charts/Bars";
import { Chart } from "../charts/Chart";
import { count, mebibytes, number, percent, rate } from "../lib/format";
import { hrefOf } from "../lib/route";
import { useLoad } from "../lib/useLoad";
import { Icon } from "../ui/Icon";
import { attempt } from "../ui/notices";
import { Failed, Page, Spinner } from "../ui/parts";
import { GlossaryView } from "./GlossaryView";
import { useGlossary } from "./Key";
import { KeyTable } from "./KeyTable";
import { Notices } from "./Notices";
import { RowTable } from "./RowTable";
import { RUN_PARTS, acceptanceBars, breaksOf } from "./charts";
import { exportRun } from "./files";

export default function RunPage({ id }: { id: string }) {
  const run = useLoad(`run ${id}`, (signal) =>
    json<RunDetail>(`/api/runs/${encodeURIComponent(id)}`, { signal }),
  );
  useGlossary();
  const name = run.value?.name ?? id;
  return (
    <Page
      title={name}
      intro={
        <a className="back-link" href={hrefOf({ page: "runs", id: null, compare: null })}>
          <Icon name="back" size={16} /> All runs
        </a>
      }
      actions={
        <button type="button" className="button" onClick={() => void attempt(() => exportRun(id, name))}>
          <Icon name="download" size={18} /> Export CSV
        </button>
      }
    >
      {run.error !== null ? (
        <Failed message={run.error} retry={run.reload} />
      ) : run.value === null ? (
        <Spinner label="Reading the run…" />
      ) : (
        <RunView run={run.value} />
      )}
    </Page>
  );
}

function RunView({ run }: { run: RunDetail }) {
  const { summary, series } = run;
  return (
    <>
      <Notices notices={run.notices} />
      {summary !== null && <Headline summary={summary} />}
      {series !== null && <RunCharts series={series} />}
      {summary !== null && (
        <section className="card">
          <h2>What it came to</h2>
          <KeyTable values={summary} place="done" />
        </section>
      )}
      <section className="card">
        <h2>Settings</h2>
        <KeyTable values={run.preamble} place="load" />
      </section>
      <section className="card">
        <h2>Rows</h2>
        <RowTable columns={run.columns} rows={run.rows} total={run.n_rows} />
      </section>
      <GlossaryView />
    </>
  );
}

function Headline({ summary }: { summary: Record<string, Cell> }) {
  const value = (key: string): number | null => {
    const found = summary[key];
    return typeof found === "number" ? found : null;
  };
  const tiles: { name: string; value: string; note?: string }[] = [
    { name: "Effective rate", value: rate(value("tok_s")), note: `tok/s; ${rate(value("decode_tok_s"))} in decoding alone` },
    { name: "Hit rate", value: percent(value("cache_hit_pct")) },
    { name: "Read", value: mebibytes(value("read_mib/tok")), note: "per token" },
    { name: "Tokens", value: count(value("decoded_tokens")), note: "decoded" },
  ];
  if (value("mtp_accept_pct") !== null) {
    tiles.push(
      { name: "Acceptance", value: percent(value("mtp_accept_pct")), note: `${count(value("mtp_accepted"))} of ${count(value("mtp_drafted"))} drafted` },
      { name: "Tokens per verify", value: number(value("mtp_tok/verify")), note: "the free one included" },
    );
  }
  return (
    <dl className="headline">
      {tiles.map((tile) => (
        <div key={tile.name} className="card">
          <dt>{tile.name}</dt>
          <dd className="num">{tile.value}</dd>
          {tile.note !== undefined && <dd className="note num">{tile.note}</dd>}
        </div>
      ))}
    </dl>
  );
}

function RunCharts({ series }: { series: RunSeries }) {
  const { x, window } = series;
  const breaks = breaksOf(series);
  const smoothed = window > 1 ? `averaged over about ${window} tokens` : undefined;
  const common = { x, breaks };
  return (
    <section className="charts" aria-label="Charts">
      <div className="card wide">
        <Chart
          {...common}
          title="Time of a token"
          unit="ms"
          kind="layers"
          height={240}
          series={RUN_PARTS.map(({ part, colour }) => ({ name: part, colour, values: series.parts[part] }))}
        />
      </div>
      <div className="card">
        <Chart
          {...common}
          title="Rate"
          unit="tok/s"
          kind="lines"
          note={smoothed}
          series={[
            { name: "effective", colour: "--run-1", values: series.effective_tok_s },
            { name: "decoding alone", colour: "--part-other", values: series.tok_s, dashed: true },
          ]}
        />
      </div>
      {series.hit_pct.length > 0 && (
        <div className="card">
          <Chart {...common} title="Hit rate" unit="%" kind="lines" top={100} note={smoothed} legend={false} series={[{ name: "hit rate", colour: "--run-3", values: series.hit_pct }]} />
        </div>
      )}
      {series.mib_per_token.length > 0 && (
        <div className="card">
          <Chart {...common} title="Experts read" unit="MiB/token" kind="lines" note={smoothed} legend={false} series={[{ name: "read", colour: "--run-2", values: series.mib_per_token }]} />
        </div>
      )}
      {series.offered_at.length > 0 && (
        <div className="card">
          <Bars title="Acceptance by position" unit="%" top={100} bars={acceptanceBars(series).map((bar) => ({ ...bar, colour: "--part-draft" }))} />
        </div>
      )}
      {series.confirmed.length > 0 && (
        <div className="card">
          <Bars
            title="Tokens that a verify confirmed"
            unit="decodes"
            bars={series.confirmed.map((decodes, tokens) => ({ label: String(tokens), value: decodes, colour: "--part-draft" })).slice(1)}
          />
        </div>
      )}
    </section>
  );
}
