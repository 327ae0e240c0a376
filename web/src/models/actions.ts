/** Load and unload; an answer that runs is not cut off without asking. */

import { json } from "../api/client";
import type { ServerState } from "../api/types";
import { answer } from "../state/chat";
import { serverState } from "../state/server";
import { confirm } from "../ui/confirm";
import { attempt } from "../ui/notices";

async function mayInterrupt(what: string): Promise<boolean> {
  const busy = answer.get() !== null || (serverState.get()?.queue.running ?? 0) > 0;
  return !busy || confirm(`${what} now?`, "An answer is being written. It ends where it is.", what);
}

/** Loads a model, or the same one again; whether it was begun. */
export async function loadModel(reference?: string): Promise<boolean> {
  if (!(await mayInterrupt(reference === undefined ? "Reload" : "Load"))) return false;
  const body = { cancel: true, ...(reference === undefined ? {} : { model: reference }) };
  const state = await attempt(() => json<ServerState>("/api/engine/load", { method: "POST", json: body }));
  if (state !== undefined) serverState.set(state);
  return state !== undefined;
}

export async function unloadModel(): Promise<void> {
  if (!(await mayInterrupt("Unload"))) return;
  const state = await attempt(() => json<ServerState>("/api/engine/unload?cancel=true", { method: "POST" }));
  if (state !== undefined) serverState.set(state);
}
