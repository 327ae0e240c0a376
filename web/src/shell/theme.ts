/** Dark or light: the system's, unless somebody has chosen. `public/theme.js` applies it first. */

import { createStore } from "../lib/store";

export type Theme = "system" | "light" | "dark";

const NAME = "moestream.theme";

function stored(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "dark" || chosen === "light" ? chosen : "system";
}

export const theme = createStore<Theme>(stored());

export function chooseTheme(next: Theme): void {
  theme.set(next);
  if (next === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
  try {
    if (next === "system") localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, next);
  } catch {
    // It holds until the page is closed.
  }
}
