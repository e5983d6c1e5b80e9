// The fleet map: colour in place without a request, arrow keys over the cells, boxes of the table.
(() => {
  "use strict";
  const COLUMNS = 8;

  // What leads on from here keeps the colour that was chosen without a request.
  function keep(keeper, chosen) {
    if (keeper.matches("input")) {
      keeper.value = chosen;
      return;
    }
    const url = new URL(keeper.href);
    url.searchParams.set("color", chosen);
    keeper.href = url.search;
  }

  function colour(link) {
    const map = document.getElementById("mapp");
    map.className = map.className.replace(/by-\w+/, `by-${link.dataset.colour}`);
    for (const other of document.querySelectorAll("[data-colour]")) {
      if (other === link) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
    for (const keeper of document.querySelectorAll("[data-keeps]")) keep(keeper, link.dataset.colour);
    history.replaceState(null, "", link.href);
    const live = document.getElementById("fleet-live");
    live?.setAttribute("hx-get", link.getAttribute("href"));
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-colour]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    colour(link);
  });

  function enter(cells) {
    const first = cells.find((cell) => cell.tabIndex === 0) || cells[0];
    if (first) first.tabIndex = 0;
  }
  const cellsOf = () => [...document.querySelectorAll("#mapp a.g")];
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS };
  document.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step || !event.target.matches("#mapp a.g")) return;
    const cells = cellsOf(), at = cells.indexOf(event.target), next = cells[at + step];
    event.preventDefault();
    if (!next) return;
    next.focus();
  });
  // One cell is in the order of Tab: the one that had the focus last, by key or by click.
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches("#mapp a.g")) return;
    for (const cell of cellsOf()) cell.tabIndex = cell === event.target ? 0 : -1;
  });
  document.addEventListener("flotilla:placed", () => enter(cellsOf()));
  enter(cellsOf());

  for (const all of document.querySelectorAll("[data-all]")) all.hidden = false;
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of document.querySelectorAll("[data-choose] input[name=nodes]")) box.checked = event.target.checked;
  });
})();
