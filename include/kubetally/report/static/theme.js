// Sets the theme before the first paint: the one chosen in Airflow (same origin, same storage), else
// the system's.
(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function apply() {
    var chosen = null;
    try {
      chosen = window.localStorage.getItem("theme");
    } catch {
      // No storage in this frame: the system decides.
    }
    var theme = chosen === "dark" || chosen === "light" ? chosen : dark.matches ? "dark" : "light";
    if (document.documentElement.dataset.theme !== theme) {
      document.documentElement.dataset.theme = theme;
      document.dispatchEvent(new Event("themechange"));
    }
  }

  apply();
  dark.addEventListener("change", apply);
  window.addEventListener("storage", apply);
})();
