// Before anything is painted: the theme that was chosen last. "system" is the absence of a choice.
try {
  const theme = localStorage.getItem("moestream.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is switched off: the system's theme it is.
}
