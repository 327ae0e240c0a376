import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { apiKey } from "./api/key";
import { App } from "./shell/App";
import { loadConversations } from "./state/chat";
import { connection, followServer, serverState } from "./state/server";
import { loadSettings } from "./state/settings";
import "./styles/index.css";

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element called root");

/** What every page needs; asked for again when there is a connection, or a key, again. */
function load(): void {
  void loadConversations().catch(() => undefined);
  void loadSettings().catch(() => undefined);
}

load();
apiKey.subscribe(load);
let link = connection.get();
connection.subscribe(() => {
  const now = connection.get();
  if (now === "open" && link === "lost") load();
  link = now;
});
let phase = serverState.get()?.phase;
serverState.subscribe(() => {
  const now = serverState.get()?.phase;
  // After a load nothing waits for one any more.
  if (now === "ready" && phase !== undefined && phase !== "ready") void loadSettings().catch(() => undefined);
  phase = now;
});
void followServer();

createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

// The server has been updated, and a part of the app that this page wants is not there any more.
window.addEventListener("vite:preloadError", () => {
  const last = Number(sessionStorage.getItem("moestream.reloaded") ?? 0);
  if (connection.get() !== "open" || Date.now() - last < 60_000) return;
  sessionStorage.setItem("moestream.reloaded", String(Date.now()));
  window.location.reload();
});

if (import.meta.env.PROD && "serviceWorker" in navigator) {
  window.addEventListener("load", () => {
    navigator.serviceWorker.register("/sw.js").catch(() => undefined); // needs https or localhost
  });
}
