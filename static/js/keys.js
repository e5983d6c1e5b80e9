// The keyboard: finding, moving, opening. No single key changes anything on the fleet.
(() => {
  "use strict";
  const GO_MS = 1200;
  let goUntil = 0;

  const typing = (element) => element.matches("input, textarea, select, [contenteditable]");
  const focusOn = (element) => { element?.focus(); element?.select?.(); };

  function moveRow(step) {
    const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const row = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))];
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  }
  function openRow(row) {
    const summary = row.querySelector("summary"), link = row.querySelector("a[href]");
    (summary || link)?.click();
  }
  function leave(element) {
    document.querySelectorAll("details.menu[open]").forEach((menu) => { menu.open = false; });
    if (typing(element)) element.blur();
  }
  function withControl(event) {
    if (event.key.toLowerCase() === "k") {
      event.preventDefault();
      focusOn(document.getElementById("jump"));
    } else if (event.key === "Enter" && event.target.form) event.target.form.requestSubmit();
  }
  function go(key) {
    goUntil = 0;
    document.querySelector(`[data-go="${CSS.escape(key)}"]`)?.click();
  }
  const plain = {
    "/": () => focusOn(document.querySelector("[data-filter]")),
    "?": () => document.getElementById("keys").showModal(),
    "g": () => { goUntil = Date.now() + GO_MS; },
    "j": () => moveRow(1),
    "k": () => moveRow(-1),
    "[": () => document.querySelector("a[rel=prev]")?.click(),
    "]": () => document.querySelector("a[rel=next]")?.click(),
  };
  document.addEventListener("keydown", (event) => {
    const element = event.target;
    if (event.ctrlKey || event.metaKey) return withControl(event);
    if (event.key === "Escape") return leave(element);
    if (event.altKey || typing(element) || document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && element.matches("[data-row]")) return openRow(element);
    if (Date.now() < goUntil) return go(event.key.toLowerCase());
    const act = plain[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  });
  for (const opener of document.querySelectorAll("[data-open]")) {
    opener.hidden = false;
    opener.addEventListener("click", () => document.getElementById(opener.dataset.open).showModal());
  }
})();
