/** What the server says about itself, over one event stream that is reopened when it breaks. */

import { ApiError, isAbort, request } from "../api/client";
import { apiKey } from "../api/key";
import { readEvents } from "../api/sse";
import type { Pull, ServerState, TurnMetrics } from "../api/types";
import { createStore } from "../lib/store";
import { addSample } from "./live";

export type Connection = "connecting" | "open" | "lost";

export const serverState = createStore<ServerState | null>(null);
export const connection = createStore<Connection>("connecting");
export const pulls = createStore<Pull[]>([]);

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** The server sends something (a comment at least) more often than this. */
const SILENCE_MS = 45_000;

let wake: (() => void) | null = null;
let current: AbortController | null = null;

/** Keeps the stream open for as long as the page lives. */
export async function followServer(): Promise<void> {
  apiKey.subscribe(retryNow);
  window.addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && connection.get() === "lost") retryNow();
  });
  let pause = FIRST_PAUSE_MS;
  for (;;) {
    try {
      await follow(() => {
        pause = FIRST_PAUSE_MS;
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        connection.set("connecting");
        await sleep(Number.POSITIVE_INFINITY); // until there is a key
        continue;
      }
      if (!isAbort(error) && !(error instanceof Error)) throw error;
    }
    connection.set("lost");
    await sleep(pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

/** Do not wait any longer. */
export function retryNow(): void {
  current?.abort();
  wake?.();
}

async function follow(opened: () => void): Promise<void> {
  const abort = new AbortController();
  current = abort;
  let silence = 0;
  const alive = (): void => {
    window.clearTimeout(silence);
    silence = window.setTimeout(() => abort.abort(), SILENCE_MS);
  };
  try {
    alive();
    const response = await request("/api/events", { signal: abort.signal });
    for await (const { event, data } of readEvents(response, alive)) {
      if (event === "state") {
        serverState.set(JSON.parse(data) as ServerState);
        connection.set("open");
        opened();
      } else if (event === "turn") {
        addSample(JSON.parse(data) as TurnMetrics);
      } else if (event === "pull") {
        const pull = JSON.parse(data) as Pull;
        pulls.set((all) => withPull(all, pull));
      }
    }
  } finally {
    window.clearTimeout(silence);
  }
}

export function withPull(all: Pull[], pull: Pull): Pull[] {
  if (pull.state === "deleted") return all.filter(({ id }) => id !== pull.id);
  const known = all.some((other) => other.id === pull.id);
  return known ? all.map((other) => (other.id === pull.id ? pull : other)) : [pull, ...all];
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = Number.isFinite(ms) ? window.setTimeout(done, ms) : 0;
    function done(): void {
      window.clearTimeout(timer);
      wake = null;
      resolve();
    }
    wake = done;
  });
}
