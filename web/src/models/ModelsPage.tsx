/** The models that are there, whether they run here, and how to get others. */

import { useEffect, useRef } from "react";

import { json } from "../api/client";
import type { ModelEntry, Pull } from "../api/types";
import { useLoad } from "../lib/useLoad";
import { useStore } from "../lib/store";
import { pulls, serverState } from "../state/server";
import { Empty, Failed, Page, Spinner } from "../ui/parts";
import { LoadedModel } from "./LoadedModel";
import { ModelItem } from "./ModelItem";
import { PullForm } from "./PullForm";
import { PullList } from "./PullList";

export default function ModelsPage() {
  const models = useLoad("models", (signal) => json<ModelEntry[]>("/api/models", { signal }));
  const known = useLoad("pulls", async (signal) => {
    pulls.set(await json<Pull[]>("/api/pulls", { signal }));
  });
  const all = useStore(pulls);
  const path = useStore(serverState, (state) => state?.model?.path ?? null);
  const phase = useStore(serverState, (state) => state?.phase ?? null);
  const done = all.filter(({ state }) => state === "done").length;

  // Another model is there, or another one is loaded.
  const { reload } = models;
  const signature = `${done} ${path} ${phase}`;
  const seen = useRef(signature);
  useEffect(() => {
    if (seen.current !== signature) reload();
    seen.current = signature;
  }, [signature, reload]);

  return (
    <Page title="Models" intro="Files on the server and in its Hugging Face cache. One is loaded at a time.">
      <LoadedModel />
      <section className="card" aria-labelledby="pull-title">
        <h2 id="pull-title">Get another one</h2>
        <PullForm />
        {known.error !== null && <Failed message={known.error} retry={known.reload} />}
        <PullList pulls={all} />
      </section>
      <section aria-labelledby="models-title">
        <h2 id="models-title" className="section-title">
          On this server
        </h2>
        {models.error !== null ? (
          <Failed message={models.error} retry={models.reload} />
        ) : models.value === null ? (
          <Spinner label="Looking for models…" />
        ) : models.value.length === 0 ? (
          <Empty icon="models" title="No model here">
            <p>Pull one above, or start the server with a folder of GGUF files.</p>
          </Empty>
        ) : (
          <ul className="model-list">
            {models.value.map((model) => (
              <ModelItem key={model.reference} model={model} />
            ))}
          </ul>
        )}
      </section>
    </Page>
  );
}
