/** The recorded runs: open one, compare several, bring one in from elsewhere. */

import { useRef, useState } from "react";

import { json, request } from "../api/client";
import type { RunHead } from "../api/types";
import { count, number, percent, rate, when } from "../lib/format";
import { go, hrefOf } from "../lib/route";
import { useLoad } from "../lib/useLoad";
import { useStore } from "../lib/store";
import { RenameForm } from "../chat/ConversationList";
import { settings } from "../state/settings";
import { Icon } from "../ui/Icon";
import { confirm } from "../ui/confirm";
import { attempt, notify } from "../ui/notices";
import { Badge, Empty, Failed, Page, Spinner } from "../ui/parts";
import { GlossaryView } from "./GlossaryView";
import { useGlossary } from "./Key";
import { exportRun, importFiles } from "./files";

const MOST_COMPARED = 6;

export default function RunsPage() {
  const runs = useLoad("runs", (signal) => json<RunHead[]>("/api/runs", { signal }));
  const recording = useStore(settings, (all) => all?.values["record_runs"] === true);
  const [picked, setPicked] = useState<string[]>([]);
  const file = useRef<HTMLInputElement>(null);
  useGlossary();

  const known = picked.filter((id) => runs.value?.some((run) => run.id === id));
  const pick = (id: string): void =>
    setPicked(known.includes(id) ? known.filter((other) => other !== id) : [...known, id].slice(-MOST_COMPARED));

  return (
    <Page
      title="Runs"
      intro={recording ? "Every answer is recorded: its settings, a row for each token, and a summary." : <>Recording is off. Switch on “Record runs” in the <a href={hrefOf({ page: "settings" })}>settings</a>.</>}
      actions={
        <>
          <input
            ref={file}
            type="file"
            accept=".csv,text/csv"
            multiple
            hidden
            aria-label="CSV files to import"
            onChange={(event) => {
              const files = [...(event.target.files ?? [])];
              event.target.value = "";
              void attempt(async () => {
                const done = await importFiles(files);
                if (done > 0) notify(done === 1 ? "The run was imported." : `${done} runs were imported.`);
              }).then(runs.reload);
            }}
          />
          <button type="button" className="button" onClick={() => file.current?.click()}>
            <Icon name="upload" size={18} /> Import CSV
          </button>
          <button
            type="button"
            className="button primary"
            disabled={known.length < 2}
            title={known.length < 2 ? "Select two runs or more" : undefined}
            onClick={() => go({ page: "runs", id: null, compare: known })}
          >
            <Icon name="compare" size={18} /> Compare{known.length > 1 ? ` ${known.length}` : ""}
          </button>
        </>
      }
    >
      {runs.error !== null ? (
        <Failed message={runs.error} retry={runs.reload} />
      ) : runs.value === null ? (
        <Spinner label="Reading the runs…" />
      ) : runs.value.length === 0 ? (
        <Empty icon="runs" title="No run yet">
          <p>
            {recording
              ? "The next answer in the chat becomes the first one."
              : "Switch on “Record runs” in the settings and ask something, or import a CSV file that moestream wrote elsewhere."}
          </p>
        </Empty>
      ) : (
        <ul className="runs card">
          {runs.value.map((run) => (
            <RunItem key={run.id} run={run} picked={known.includes(run.id)} onPick={() => pick(run.id)} reload={runs.reload} />
          ))}
        </ul>
      )}
      <GlossaryView />
    </Page>
  );
}

function RunItem({ run, picked, onPick, reload }: { run: RunHead; picked: boolean; onPick: () => void; reload: () => void }) {
  const [renaming, setRenaming] = useState(false);
  const path = `/api/runs/${encodeURIComponent(run.id)}`;

  async function remove(): Promise<void> {
    if (!(await confirm("Delete this run?", `The recording “${run.name}” is deleted from the server’s disk.`, "Delete"))) return;
    await attempt(() => request(path, { method: "DELETE" }));
    reload();
  }

  return (
    <li className={`run ${picked ? "picked" : ""}`}>
      <input type="checkbox" className="checkbox" aria-label={`Select ${run.name} to compare`} checked={picked} disabled={run.error !== null} onChange={onPick} />
      <div className="run-what">
        {renaming ? (
          <RenameForm
            title={run.name}
            onDone={(name) => {
              setRenaming(false);
              if (name !== null && name !== run.name) {
                void attempt(() => json(path, { method: "PATCH", json: { name } })).then(reload);
              }
            }}
          />
        ) : (
          <a className="run-name" href={hrefOf({ page: "runs", id: run.id, compare: null })}>
            {run.name}
          </a>
        )}
        <p className="run-label">
          {run.error !== null ? <span className="error-text">{run.error}</span> : run.label}
        </p>
        <p className="run-meta">
          {run.imported && <Badge>imported</Badge>}
          {run.speculated && <Badge tone="accent">{run.spec ?? "drafted"}</Badge>}
          <span>{run.model ?? "unknown model"}</span>
          <span>{when(run.created)}</span>
        </p>
      </div>
      <dl className="run-numbers num">
        <div title={`${number(run.tok_s)} tokens a second in decoding alone`}>
          <dt>effective</dt>
          <dd>
            {rate(run.effective_tok_s)} <small>tok/s</small>
          </dd>
        </div>
        <div>
          <dt>hits</dt>
          <dd>{percent(run.hit_pct)}</dd>
        </div>
        <div>
          <dt>tokens</dt>
          <dd>{count(run.tokens)}</dd>
        </div>
      </dl>
      <div className="run-actions">
        <button type="button" className="icon-button small" aria-label={`Rename ${run.name}`} title="Rename" onClick={() => setRenaming(true)}>
          <Icon name="edit" size={17} />
        </button>
        <button type="button" className="icon-button small" aria-label={`Export ${run.name}`} title="Export as CSV" onClick={() => void attempt(() => exportRun(run.id, run.name))}>
          <Icon name="download" size={17} />
        </button>
        <button type="button" className="icon-button small" aria-label={`Delete ${run.name}`} title="Delete" onClick={() => void remove()}>
          <Icon name="trash" size={17} />
        </button>
      </div>
    </li>
  );
}
