// The log page: following and holding, marking and links, first error, older and newer lines, lanes.
// Everything that matters is a link already; this makes it quicker. Nothing moves while a person reads.
(() => {
  "use strict";
  const viewer = document.getElementById("log-viewer");
  if (!viewer) return;
  const { Rows, Feed, Marks, Lanes, parseCursor } = window.FlotillaLog;
  const FRAME_MS = 100, NEAR_PX = 300, PAGE = 500;
  const log = document.getElementById("log"), said = document.getElementById("log-said"), source = document.getElementById("log-source");
  const followButton = document.getElementById("log-follow"), side = document.getElementById("log-side");
  const rows = new Rows(viewer), words = said.dataset;
  const before = parseCursor(viewer.dataset.before), after = parseCursor(viewer.dataset.after); // what is drawn
  let hasOlder = viewer.dataset.older === "1", hasNewer = viewer.dataset.newer === "1", follows = viewer.dataset.follows === "1";
  let newer = 0, waiting = [], timer = 0, loading = false, heldAt = "", age = 0;
  const cursorText = (cursor) => [...cursor].map(([stream, line]) => `${stream}:${line}`).join(",");
  const number = new Intl.NumberFormat(document.documentElement.lang);

  // -- the foot bar always tells where we are
  function tell() {
    const count = (newer === 1 ? words.newerOne : words.newer).replace("{n}", number.format(newer));
    const held = words.held.replace("{line}", heldAt || lastKey());
    const isOver = feed && feed.over.size > 0 && feed.over.size === after.size;
    const text = follows ? (isOver ? words.ended : words.following) : newer ? `${held} ${count}` : held;
    const stale = age ? ` ${words.stale.replace("{n}", Math.round(age / 1000))}` : "";
    if (said.textContent !== text + stale) said.textContent = text + stale;
    followButton.setAttribute("aria-pressed", String(follows));
    for (const link of ["log-older", "log-newer"]) {
      const element = document.getElementById(link);
      if (element) element.hidden = link === "log-older" ? !hasOlder : !hasNewer && !newer;
    }
  }
  function lastKey() { return [...rows.box.querySelectorAll(".ln[data-s]")].at(-1)?.id.slice(1) || "0"; }

  // -- lines that arrive
  function take(lines, known) {
    if (!follows) {
      newer += lines.length;
      tell();
      return;
    }
    for (const [stream, line] of known) after.set(stream, line);
    if (!lines.length) return;
    waiting.push(...lines);
    timer = timer || setTimeout(draw, FRAME_MS);
  }
  function draw() {
    timer = 0;
    const lines = waiting.sort((a, b) => a.at - b.at || rows.position.get(a.stream) - rows.position.get(b.stream) || a.number - b.number);
    waiting = [];
    document.getElementById("log-empty")?.remove();
    forget(rows.append(lines), true);
    count(lines);
    if (follows) log.scrollTop = log.scrollHeight;
    tell();
  }
  function count(lines) {
    for (const level of ["W", "E"]) {
      const box = viewer.querySelector(`[data-count="${level}"]`), more = lines.filter((line) => line.level === level).length;
      if (more) { box.dataset.n = Number(box.dataset.n || box.textContent.replace(/\D/g, "")) + more; box.textContent = number.format(box.dataset.n); box.previousElementSibling.className = level === "E" ? "t-crit" : "t-warn"; }
    }
  }
  function forget(gone, fromTop) { // rows that left the page are fetched again when they are wanted
    for (const [stream, line] of gone) (fromTop ? before.set(stream, line + 1) : after.set(stream, line - 1));
    if (gone.size) fromTop ? (hasOlder = true) : (hasNewer = true);
  }

  // -- following and holding
  function hold(key) {
    if (follows) {
      if (waiting.length) { clearTimeout(timer); draw(); }
      follows = false;
      newer = 0;
    }
    heldAt = key || heldAt || lastKey();
    tell();
  }
  async function follow() {
    const page = await feed.fetch({ limit: PAGE });
    rows.replace(page.lines);
    reset(before, page.before);
    reset(after, page.after);
    [hasOlder, hasNewer, newer, waiting, heldAt] = [page.has_older, false, 0, [], ""];
    follows = true;
    marks.mark(null);
    feed.restart(after);
    log.scrollTop = log.scrollHeight;
    tell();
  }
  function reset(cursor, text) { cursor.clear(); for (const [stream, line] of parseCursor(text)) cursor.set(stream, line); }

  // -- older and newer lines when the reader comes near them
  async function more(isOlder) {
    if (loading || follows || !(isOlder ? hasOlder : hasNewer || newer)) return;
    loading = true;
    try {
      const page = await feed.fetch(isOlder ? { before: cursorText(before), limit: PAGE } : { after: cursorText(after), limit: PAGE });
      const height = log.scrollHeight, top = log.scrollTop;
      if (isOlder) {
        forget(rows.prepend(page.lines), false);
        log.scrollTop = top + log.scrollHeight - height;
        reset(before, page.before);
        hasOlder = page.has_older;
      } else {
        const gone = rows.append(page.lines);
        if (gone.size) log.scrollTop = Math.max(0, log.scrollTop - (height - log.scrollHeight));
        forget(gone, true);
        reset(after, page.after);
        hasNewer = page.has_newer;
        newer = Math.max(0, newer - page.lines.length);
      }
    } finally { loading = false; tell(); }
  }
  const lanes = new Lanes(viewer, log);
  let lastTop = log.scrollTop;
  log.addEventListener("scroll", () => {
    const up = log.scrollTop < lastTop - 2;
    lastTop = log.scrollTop;
    if (follows && up && log.scrollTop + log.clientHeight < log.scrollHeight - 4) hold();
    lanes.follow();
    if (log.scrollTop < NEAR_PX) more(true);
    else if (log.scrollTop + log.clientHeight > log.scrollHeight - NEAR_PX) more(false);
  }, { passive: true });
  document.addEventListener("selectionchange", () => {
    const marked = getSelection();
    if (follows && marked.rangeCount && !marked.isCollapsed && log.contains(marked.anchorNode)) hold();
  });

  const marks = new Marks(viewer, rows, (row) => { // shown: held, centred, with its facts
    hold(row.id.slice(1));
    row.scrollIntoView({ block: "center" });
    lastTop = log.scrollTop;
    window.htmx.ajax("GET", `${viewer.dataset.lines}?side=${row.id.slice(1)}`, { target: "#log-side", swap: "innerHTML" });
  }, hold);
  side.addEventListener("click", (event) => {
    const link = event.target.closest("#log-copy");
    if (!link || !navigator.clipboard) return;
    event.preventDefault();
    navigator.clipboard.writeText(new URL(link.href, location.href).href).then(() => { link.textContent = link.dataset.done; });
  });

  // -- keys: E first error, N and P next and previous, F follow, W wrap, Esc lets go
  async function step(forward) {
    const marked = rows.box.querySelector(".ln.at") || (forward ? rows.box.querySelector(".ln[data-s]") : null);
    const all = [...rows.box.querySelectorAll(".ln[data-s]")], at = marked ? all.indexOf(marked) : all.length;
    const here = forward ? all.slice(at + (marked?.classList.contains("at") ? 1 : 0)) : all.slice(0, at).reverse();
    const row = here.find((one) => one.classList.contains("err"));
    if (row) { marks.go(row.id.slice(1)); return; }
    const page = await feed.fetch({ level: "error", limit: 1, [forward ? "after" : "before"]: cursorText(forward ? after : before) });
    if (page.lines.length) marks.go(rows.key(page.lines[0]));
  }
  function wrap() {
    const on = log.classList.toggle("nowrap");
    document.getElementById("log-wrap").setAttribute("aria-pressed", String(!on));
    try { localStorage.setItem("log-nowrap", on ? "1" : ""); } catch { /* private mode */ }
  }
  const firstError = document.getElementById("log-first-error");
  const keys = {
    e: () => firstError && marks.go(firstError.dataset.key),
    n: () => step(true), p: () => step(false), f: () => follow(), w: wrap,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") { marks.clear(); return; }
    const act = keys[event.key.toLowerCase()];
    if (act) { event.preventDefault(); act(); }
  });
  firstError?.addEventListener("click", (event) => { event.preventDefault(); marks.go(firstError.dataset.key); });
  followButton.addEventListener("click", (event) => { event.preventDefault(); follow(); });
  const wrapButton = document.getElementById("log-wrap");
  wrapButton.hidden = false;
  wrapButton.addEventListener("click", wrap);
  for (const select of viewer.querySelectorAll(".logbar select")) select.addEventListener("change", () => select.form.requestSubmit());
  for (const link of ["log-older", "log-newer"]) {
    document.getElementById(link)?.addEventListener("click", (event) => { event.preventDefault(); hold(); more(link === "log-older"); });
  }

  // -- start
  try { if (localStorage.getItem("log-nowrap")) wrap(); } catch { /* private mode */ }
  const states = { live: source.dataset.live, reconnecting: source.dataset.reconnecting, polling: source.dataset.polling, denied: source.dataset.denied, uncaptured: source.dataset.uncaptured };
  let feed = null;
  if (viewer.dataset.positions || viewer.dataset.live) {
    feed = new Feed(viewer, after, take, (state, ageMs) => {
      source.textContent = states[state] || "";
      source.dataset.state = state;
      if ((age > 0) !== (ageMs > 0) || ageMs) { age = ageMs; tell(); }
    });
    feed.onChanged = () => { if (!rows.count) location.reload(); };
  }
  if (marks.open(location.hash)) { /* held there */ } else if (follows) log.scrollTop = log.scrollHeight;
  lastTop = log.scrollTop;
  lanes.follow();
  tell();
})();
