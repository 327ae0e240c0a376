/** What the engine is doing when it is not ready, and what can be done about it. */

import { hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { capital } from "../lib/format";
import { connection, serverState } from "../state/server";
import { loadModel } from "../models/actions";
import { Progress, Spinner } from "../ui/parts";

export function LoadProgress() {
  const state = useStore(serverState);
  const link = useStore(connection);
  if (link === "lost") return <Spinner label="The server is away. Trying to reach it…" />;
  if (state === null) return <Spinner label="Connecting…" />;
  if (state.phase === "loading" || state.phase === "restarting") {
    const what = state.phase === "loading" ? "Loading" : "The engine has stopped. Restarting";
    return (
      <div className="load-progress">
        <p>
          {what} {state.model?.name ?? "the model"}…
        </p>
        <Progress value={state.progress} label="Loading the model" />
      </div>
    );
  }
  if (state.phase === "failed") {
    return (
      <div className="load-progress" role="alert">
        <p className="error-text">{capital(state.error ?? "The model could not be loaded.")}</p>
        <div className="row">
          <button type="button" className="button primary" onClick={() => void loadModel()}>
            Try again
          </button>
          <a className="button" href={hrefOf({ page: "models" })}>
            Choose another model
          </a>
        </div>
      </div>
    );
  }
  if (state.phase === "unloaded") {
    return (
      <div className="load-progress">
        <p>No model is loaded.</p>
        <div className="row">
          <a className="button primary" href={hrefOf({ page: "models" })}>
            Choose a model
          </a>
        </div>
      </div>
    );
  }
  return null;
}
