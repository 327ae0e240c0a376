/** What has been changed and is not in effect yet, and the way to make it so. */

import { useEffect, useRef } from "react";

import type { SettingSchema } from "../api/types";
import { plural } from "../lib/format";
import { useStore } from "../lib/store";
import { loadModel } from "../models/actions";
import { serverState } from "../state/server";
import { Icon } from "../ui/Icon";
import { notify } from "../ui/notices";
import { Progress } from "../ui/parts";

export function ReloadBar({ pending, schema }: { pending: readonly string[]; schema: readonly SettingSchema[] }) {
  const phase = useStore(serverState, (state) => state?.phase ?? null);
  const progress = useStore(serverState, (state) => state?.progress ?? null);
  const asked = useRef(false);
  useEffect(() => {
    if (phase === "ready" && asked.current) {
      asked.current = false;
      notify("The model is loaded with the new settings.");
    }
    if (phase === "failed") asked.current = false;
  }, [phase]);
  const loading = phase === "loading" || phase === "restarting";
  if (pending.length === 0 && !loading) return null;
  const names = pending.map((key) => schema.find((setting) => setting.key === key)?.label ?? key);
  return (
    <div className="reload-bar" role="status">
      <Icon name="reload" />
      {loading ? (
        <div className="grow">
          <b>Loading the model…</b>
          <Progress value={progress} label="Loading the model" />
        </div>
      ) : (
        <>
          <p className="grow">
            <b>
              {plural(pending.length, "change")} {pending.length === 1 ? "takes" : "take"} effect with a
              reload
            </b>
            <span>{names.join(", ")}</span>
          </p>
          <button
            type="button"
            className="button primary"
            onClick={() => {
              void loadModel().then((begun) => {
                asked.current = begun;
              });
            }}
          >
            Reload now
          </button>
        </>
      )}
    </div>
  );
}
