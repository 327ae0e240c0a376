/** The settings as the server has them; every change is sent at once. */

import { json } from "../api/client";
import type { SettingValues, Settings } from "../api/types";
import { createStore } from "../lib/store";

export const settings = createStore<Settings | null>(null);

export async function loadSettings(): Promise<void> {
  settings.set(await json<Settings>("/api/settings"));
}

/**
 * Raises the server's `ApiError`, whose `param` names the setting that it refuses.
 *
 * `at once`: show the values before the server has taken them, and take them back if it does not.
 */
export async function changeSettings(values: SettingValues, show?: "at once"): Promise<void> {
  const before = settings.get();
  if (show && before !== null) settings.set({ ...before, values: { ...before.values, ...values } });
  try {
    settings.set(await json<Settings>("/api/settings", { method: "PUT", json: { values } }));
  } catch (error) {
    if (show) settings.set(before);
    throw error;
  }
}
