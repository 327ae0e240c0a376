/** Which page is shown, kept behind the `#` of the address: the server needs to know nothing of it. */

import { useSyncExternalStore } from "react";

export type Page = "chat" | "runs" | "models" | "settings";

export type Route =
  | { page: "chat"; id: string | null }
  | { page: "runs"; id: string | null; compare: string[] | null }
  | { page: "models" }
  | { page: "settings" };

export function parseRoute(hash: string): Route {
  const [page = "", ...rest] = hash.replace(/^#?\/?/, "").split("/").map(decode);
  const id = rest[0] === undefined || rest[0] === "" ? null : rest[0];
  if (page === "runs" && id === "compare") {
    const ids = (rest[1] ?? "").split(",").filter((part) => part !== "");
    return { page: "runs", id: null, compare: ids };
  }
  if (page === "runs") return { page: "runs", id, compare: null };
  if (page === "models" || page === "settings") return { page };
  return { page: "chat", id: page === "chat" ? id : null };
}

export function hrefOf(route: Route): string {
  if (route.page === "chat") return `#/chat${route.id === null ? "" : `/${encodeURIComponent(route.id)}`}`;
  if (route.page === "runs" && route.compare !== null) {
    return `#/runs/compare/${route.compare.map(encodeURIComponent).join(",")}`;
  }
  if (route.page === "runs" && route.id !== null) return `#/runs/${encodeURIComponent(route.id)}`;
  return `#/${route.page}`;
}

export function go(route: Route, options: { replace?: boolean } = {}): void {
  if (options.replace) {
    history.replaceState(null, "", hrefOf(route));
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    window.location.hash = hrefOf(route);
  }
}

let last: { hash: string; route: Route } | null = null;

function current(): Route {
  const { hash } = window.location;
  if (last === null || last.hash !== hash) last = { hash, route: parseRoute(hash) };
  return last.route;
}

export function useRoute(): Route {
  return useSyncExternalStore((changed) => {
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, current);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
