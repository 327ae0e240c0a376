/** Which model there is and what it is doing; leads to the models. */

import { mebibytes } from "../lib/format";
import { hrefOf } from "../lib/route";
import { useStore } from "../lib/store";
import { answer } from "../state/chat";
import { type Connection, connection, serverState } from "../state/server";
import type { ServerState } from "../api/types";

export function EngineStatus() {
  const state = useStore(serverState);
  const link = useStore(connection);
  const busy = useStore(answer, (current) => current !== null);
  const { tone, text } = statusOf(state, link, busy);
  return (
    <a className="engine-status" href={hrefOf({ page: "models" })}>
      <span className={`dot ${tone}`} aria-hidden="true" />
      <span className="engine-text">
        <b>{state?.model?.name ?? "No model"}</b>
        <span>{text}</span>
      </span>
    </a>
  );
}

export function statusOf(
  state: ServerState | null,
  link: Connection,
  busy: boolean,
): { tone: string; text: string } {
  if (link === "lost") return { tone: "bad", text: "Server away" };
  if (state === null) return { tone: "wait", text: "Connecting…" };
  const percent = state.progress === null ? "" : ` ${Math.round(state.progress * 100)} %`;
  switch (state.phase) {
    case "loading":
      return { tone: "wait", text: `Loading…${percent}` };
    case "restarting":
      return { tone: "wait", text: `Restarting…${percent}` };
    case "failed":
      return { tone: "bad", text: "Failed" };
    case "unloaded":
      return { tone: "off", text: "Not loaded" };
    case "ready": {
      const memory = state.memory.used_mib;
      const running = busy || state.queue.running > 0;
      const rest = memory === null ? "" : ` · ${mebibytes(memory)}`;
      return { tone: running ? "busy" : "good", text: `${running ? "Answering" : "Ready"}${rest}` };
    }
  }
}
