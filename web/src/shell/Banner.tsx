/** A line above every page that says what is not as it should be. */

import { hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { loadModel } from "../models/actions";
import { capital } from "../lib/format";
import { connection, retryNow, serverState } from "../state/server";
import { Icon } from "../ui/Icon";
import { Progress } from "../ui/parts";

/** `told`: the page below says itself what the engine is doing. */
export function Banner({ told }: { told: boolean }) {
  const link = useStore(connection);
  const state = useStore(serverState);
  return (
    <div className="banner-host" role="status">
      {link === "lost" ? (
        <div className="banner warn">
          <Icon name="warning" size={18} />
          <span>Connection to the server lost. Trying again…</span>
          <button type="button" className="button small" onClick={retryNow}>
            Now
          </button>
        </div>
      ) : told ? null : state?.phase === "restarting" ? (
        <div className="banner warn">
          <Icon name="reload" size={18} />
          <span>The engine has stopped and is restarting. Nothing you wrote is lost.</span>
          <Progress value={state.progress} label="Restarting the engine" />
        </div>
      ) : state?.phase === "loading" ? (
        <div className="banner">
          <Icon name="models" size={18} />
          <span>Loading {state.model?.name ?? "the model"}…</span>
          <Progress value={state.progress} label="Loading the model" />
        </div>
      ) : state?.phase === "failed" ? (
        <div className="banner error">
          <Icon name="warning" size={18} />
          <span>{capital(state.error ?? "The engine has failed.")}</span>
          <button type="button" className="button small" onClick={() => void loadModel()}>
            Try again
          </button>
          <a className="button small" href={hrefOf({ page: "models" })}>
            Models
          </a>
        </div>
      ) : null}
    </div>
  );
}
