/** The API key: asked for when the server wants one, kept in this browser. */

import { createStore } from "../lib/store";

const NAME = "moestream.key";

function stored(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

export const apiKey = createStore<string | null>(stored());

/** Whether the server has refused us for want of a key, or of the right one. */
export const keyRefused = createStore<null | "missing" | "wrong">(null);

export function rememberKey(key: string | null): void {
  apiKey.set(key);
  keyRefused.set(null);
  try {
    if (key === null) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, key);
  } catch {
    // It holds until the page is closed.
  }
}

export function refused(): void {
  keyRefused.set(apiKey.get() === null ? "missing" : "wrong");
}
