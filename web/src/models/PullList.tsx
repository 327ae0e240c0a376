/** Pulls under way and those before them. */

import { json, request } from "../api/client";
import type { Pull } from "../api/types";
import { bytes } from "../lib/format";
import { pulls as store, withPull } from "../state/server";
import { Icon } from "../ui/Icon";
import { confirm } from "../ui/confirm";
import { attempt } from "../ui/notices";
import { Progress } from "../ui/parts";
import { canResume, isActive, pullText, shareOf } from "./logic";

export function PullList({ pulls }: { pulls: readonly Pull[] }) {
  if (pulls.length === 0) return null;
  return (
    <ul className="pulls">
      {pulls.map((pull) => (
        <PullItem key={pull.id} pull={pull} />
      ))}
    </ul>
  );
}

function PullItem({ pull }: { pull: Pull }) {
  const active = isActive(pull);
  const path = `/api/pulls/${encodeURIComponent(pull.id)}`;

  function act(verb: "cancel" | "resume"): void {
    void attempt(async () => {
      const changed = await json<Pull | undefined>(`${path}/${verb}`, { method: "POST", json: {} });
      if (changed?.id !== undefined) store.set((all) => withPull(all, changed));
    });
  }

  async function remove(): Promise<void> {
    const partial = canResume(pull) && pull.bytes_done > 0;
    if (partial && !(await confirm("Give up this pull?", `The ${bytes(pull.bytes_done)} that were fetched so far are deleted.`, "Give up"))) return;
    await attempt(async () => {
      await request(path, { method: "DELETE" });
      store.set((all) => all.filter(({ id }) => id !== pull.id));
    });
  }

  return (
    <li className={`pull ${pull.state}`}>
      <div className="pull-head">
        <b>{pull.reference}</b>
        <span className="pull-actions">
          {active && (
            <button type="button" className="button small" onClick={() => act("cancel")}>
              Cancel<span className="visually-hidden"> {pull.reference}</span>
            </button>
          )}
          {canResume(pull) && (
            <button type="button" className="button small" onClick={() => act("resume")}>
              Resume<span className="visually-hidden"> {pull.reference}</span>
            </button>
          )}
          {!active && (
            <button type="button" className="icon-button small" aria-label={`Remove ${pull.reference} from the list`} title="Remove from the list" onClick={() => void remove()}>
              <Icon name="close" size={16} />
            </button>
          )}
        </span>
      </div>
      {(active || (canResume(pull) && shareOf(pull) !== null)) && (
        <Progress value={shareOf(pull)} label={`Progress of ${pull.reference}`} />
      )}
      <p className={pull.state === "failed" ? "error-text" : "pull-text num"}>
        {pullText(pull)}
      </p>
    </li>
  );
}
