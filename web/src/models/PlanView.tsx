/** Does it run here, and how fast about? */

import { json } from "../api/client";
import type { Plan } from "../api/types";
import { Swatch } from "../charts/Chart";
import { bytes } from "../lib/format";
import { useLoad } from "../lib/useLoad";
import { Failed, Spinner } from "../ui/parts";
import { VERDICTS, hitsOf, memoryShares, speedOf } from "./logic";

export function PlanView({ reference }: { reference: string }) {
  const plan = useLoad(`plan ${reference}`, (signal) =>
    json<Plan>(`/api/models/plan?measure_s=3&model=${encodeURIComponent(reference)}`, { signal }),
  );
  if (plan.error !== null) return <Failed message={plan.error} retry={plan.reload} />;
  if (plan.value === null) return <Spinner label="Measuring disk and processor for a few seconds…" />;
  return <PlanResult plan={plan.value} />;
}

function PlanResult({ plan }: { plan: Plan }) {
  const verdict = VERDICTS[plan.verdict];
  const speed = speedOf(plan);
  const hits = hitsOf(plan);
  const shares = memoryShares(plan);
  const total = shares.reduce((sum, share) => sum + share.bytes, 0);
  const fastest = Math.max(0, ...(plan.disk?.rates ?? []).map(({ bytes_per_s }) => bytes_per_s));
  return (
    <section aria-label="Plan">
      <div className={`verdict ${verdict.tone}`}>
        <b>{verdict.title}</b>
        {speed !== null && <span className="num">{speed}</span>}
        <p>{verdict.says}</p>
      </div>
      <h4>Where the memory goes</h4>
      <div
        className="share-bar"
        role="img"
        aria-label={shares.map(({ name, bytes: size }) => `${name} ${bytes(size)}`).join(", ")}
      >
        {shares.map(({ name, bytes: size, colour }) => (
          <span key={name} style={{ width: `${(100 * size) / total}%`, background: `var(${colour})` }} />
        ))}
      </div>
      <ul className="legend spread">
        {shares.map(({ name, bytes: size, colour }) => (
          <li key={name}>
            <Swatch colour={colour} /> {name} <b className="num">{bytes(size)}</b>
          </li>
        ))}
      </ul>
      <dl className="fact-grid">
        {plan.n_expert > 0 && (
          <>
            <Fact name="All experts" value={bytes(plan.memory.experts)} />
            <Fact name="One token routes" value={bytes(plan.memory.token_demand)} />
            <Fact name="Hits only above" value={bytes(plan.memory.cliff)} hint="A smaller cache hits nothing at all" />
          </>
        )}
        {hits !== null && <Fact name="Expected hits" value={hits} />}
        {fastest > 0 && <Fact name="Disk" value={`${bytes(Math.round(fastest))}/s`} />}
      </dl>
      {plan.notes.length > 0 && (
        <ul className="notes">
          {plan.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Fact({ name, value, hint }: { name: string; value: string; hint?: string }) {
  return (
    <div title={hint}>
      <dt>{name}</dt>
      <dd className="num">{value}</dd>
    </div>
  );
}
