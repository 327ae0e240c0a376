/** What is in a model's file. */

import { json } from "../api/client";
import type { Inspection } from "../api/types";
import { bytes, count } from "../lib/format";
import { useLoad } from "../lib/useLoad";
import { Failed, Spinner } from "../ui/parts";

export function InspectView({ reference }: { reference: string }) {
  const found = useLoad(`inspect ${reference}`, (signal) =>
    json<Inspection>(`/api/models/inspect?model=${encodeURIComponent(reference)}`, { signal }),
  );
  if (found.error !== null) return <Failed message={found.error} retry={found.reload} />;
  if (found.value === null) return <Spinner label="Reading the header…" />;
  const model = found.value;
  return (
    <section aria-label="Contents">
      <h4>What is in it</h4>
      <dl className="fact-grid">
        {factsOf(model).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="num">{value}</dd>
          </div>
        ))}
      </dl>
      {model.not_streamable !== null && <p className="muted">Not streamed: {model.not_streamable}</p>}
      <div className="table-scroll" tabIndex={0} role="group" aria-label="Types of weights">
        <table>
          <thead>
            <tr>
              <th scope="col">Type</th>
              <th scope="col">Tensors</th>
              <th scope="col">Dense</th>
              <th scope="col">Experts</th>
            </tr>
          </thead>
          <tbody>
            {model.types.map((share) => (
              <tr key={share.type}>
                <th scope="row">{share.type}</th>
                <td className="num">{count(share.tensors)}</td>
                <td className="num">{bytes(share.dense_bytes)}</td>
                <td className="num">{bytes(share.expert_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function factsOf(model: Inspection): [string, string][] {
  const facts: [string, string][] = [
    ["Architecture", model.architecture],
    ["Parameters", parameters(model.n_parameters)],
    ["Layers", count(model.n_layer)],
    ["Context trained", `${count(model.context_length)} tokens`],
    ["Vocabulary", count(model.vocabulary)],
    ["Chat template", model.has_chat_template ? "yes" : "no"],
    ["MTP head", headOf(model)],
  ];
  const { experts } = model;
  if (experts !== null) {
    facts.push(
      ["Experts", `${experts.n_expert} in each of ${experts.moe_layers.length} layers`],
      ["Used per token", `${experts.n_expert_used} in each layer`],
      ["One expert", bytes(experts.expert_bytes_max)],
      ["Dense weights", bytes(model.dense_bytes)],
      ["Expert weights", bytes(experts.total_bytes)],
    );
  }
  return facts;
}

function headOf({ nextn }: Inspection): string {
  if (nextn.claimed_layers === 0) return "none";
  return nextn.usable ? "yes" : "incomplete";
}

function parameters(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} billion`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(1)} million` : count(value);
}
