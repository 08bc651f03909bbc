// Before the first paint: the chosen theme, or the system's when none was chosen.
"use strict";
try {
  const theme = localStorage.getItem("rocmforge.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's theme.
}
