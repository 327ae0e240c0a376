/** The model that is loaded: what was decided for it, and what to know about it. */

import { bytes, cell, count } from "../lib/format";
import { useStore } from "../lib/store";
import { LoadProgress } from "../shell/LoadProgress";
import { connection, serverState } from "../state/server";
import { Icon } from "../ui/Icon";
import { Badge } from "../ui/parts";
import { unloadModel } from "./actions";

export function LoadedModel() {
  const state = useStore(serverState);
  const link = useStore(connection);
  if (state === null || link === "lost" || state.phase !== "ready") {
    return (
      <section className="card loaded" aria-label="The loaded model">
        <LoadProgress />
      </section>
    );
  }
  const report = state.report ?? {};
  const words = (key: string): string[] => (Array.isArray(report[key]) ? (report[key] as unknown[]).map(String) : []);
  const facts = factsOf(report);
  return (
    <section className="card loaded" aria-labelledby="loaded-title">
      <div className="section-head">
        <div>
          <h2 id="loaded-title">
            {state.model?.name ?? "The model"} <Badge tone="good">loaded</Badge>
          </h2>
          <p className="muted">{cell(report["description"]).replace("?B ", "")}</p>
        </div>
        <button type="button" className="button" onClick={() => void unloadModel()}>
          <Icon name="power" size={17} /> Unload
        </button>
      </div>
      {words("warnings").map((warning) => (
        <p key={warning} className="warn-text">
          <Icon name="warning" size={17} /> {warning}
        </p>
      ))}
      <dl className="fact-grid">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="num">{value}</dd>
          </div>
        ))}
      </dl>
      {words("notes").length > 0 && (
        <details className="folded inner">
          <summary>
            <Icon name="chevron" size={16} /> What was decided while it was loaded
          </summary>
          <ul className="notes">
            {words("notes").map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function factsOf(report: Record<string, unknown>): [string, string][] {
  const value = (key: string): number | null => (typeof report[key] === "number" ? report[key] : null);
  const facts: [string, string][] = [
    ["Context", `${count(value("n_ctx"))} tokens`],
    ["Threads", count(value("threads"))],
    ["Dense weights", bytes(value("dense_bytes"))],
    ["Experts", bytes(value("expert_bytes"))],
  ];
  if (report["streamed"] === true) {
    facts.push(
      ["Expert cache", `${bytes(value("cache_bytes"))}${report["cache_auto"] === true ? " (auto)" : ""}`],
      ["One token routes", bytes(value("token_demand_bytes"))],
      ["Overlap", report["overlap"] === true ? "compute while reading" : "off"],
    );
  } else {
    facts.push(["Streaming", "off, all in memory"]);
  }
  const load = value("open_s");
  if (load !== null) facts.push(["Ready after", `${load.toFixed(1)} s`]);
  return facts;
}
