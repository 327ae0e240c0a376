/** Everything the panel shows: how fast, where the time goes, what is read, and from how much memory. */

import { Chart } from "../charts/Chart";
import { Sparkline } from "../charts/Sparkline";
import { mebibytes, number, percent, rate } from "../lib/format";
import { useStore } from "../lib/store";
import { live } from "../state/live";
import { MemoryMeter } from "./MemoryMeter";
import { PARTS, type MetricKey, drafts, valuesOf } from "./figures";

export function LiveContent() {
  const { samples, running } = useStore(live);
  const now = samples.at(-1);
  if (now === undefined) {
    return (
      <div className="live-empty">
        <p>{running ? "The first token is on its way…" : "While an answer is written, its cost is shown here: speed, where the time of a token goes, hits in the expert cache, and bytes read from disk."}</p>
        <MemoryMeter sample={null} />
      </div>
    );
  }
  const speculates = drafts(samples);
  return (
    <>
      <div className="speed">
        <div className="speed-main">
          <span className="speed-label">Effective rate</span>
          <span className="speed-value num" data-testid="effective-rate">
            {rate(now.effective_tok_s)}
          </span>
          <span className="speed-unit">tok/s</span>
        </div>
        <Sparkline values={valuesOf(samples, "effective_tok_s")} height={44} width={140} />
        <p className="speed-note">
          <span className="num">{rate(now.tok_s)}</span> tok/s in decoding alone
        </p>
      </div>
      <Chart
        title="Time of a token"
        unit="ms"
        kind="layers"
        height={170}
        x={samples.map(({ index }) => index)}
        series={PARTS.map(({ key, name, colour }) => ({ name, colour, values: valuesOf(samples, key) }))}
        legend={false}
      />
      <dl className="parts">
        {PARTS.map(({ key, name, colour, help }) => (
          <div key={key} title={help}>
            <dt>
              <span className="swatch" style={{ background: `var(${colour})` }} aria-hidden="true" />
              {name}
            </dt>
            <dd className="num">{number(now[key])}</dd>
          </div>
        ))}
      </dl>
      <dl className="tiles">
        <Tile name="Hit rate" hint="Routed experts that were in the cache" value={percent(now.hit_pct)} of="hit_pct" top={100} />
        <Tile name="Read" hint="Experts read from disk for each token" value={mebibytes(now.mib_per_token)} suffix="/token" of="mib_per_token" />
        {speculates && (
          <>
            <Tile name="Acceptance" hint="Drafted tokens that the model confirmed" value={percent(now.acceptance_pct)} of="acceptance_pct" top={100} />
            <Tile name="Tokens per pass" hint="Tokens that one decode confirmed" value={number(now.tokens_per_pass)} of="tokens_per_pass" />
          </>
        )}
      </dl>
      <MemoryMeter sample={now} />
    </>
  );
}

function Tile(props: { name: string; hint: string; value: string; suffix?: string; of: MetricKey; top?: number }) {
  const values = useStore(live, ({ samples }) => samples);
  return (
    <div className="tile" title={props.hint}>
      <dt>{props.name}</dt>
      <dd className="num">
        {props.value}
        {props.suffix !== undefined && <small>{props.suffix}</small>}
      </dd>
      <Sparkline values={valuesOf(values, props.of)} {...(props.top === undefined ? {} : { top: props.top })} />
    </div>
  );
}
