// Live pages: one socket rings topics, elements refetch themselves by ordinary GETs (htmx), and only what changed
// is put in place. Nothing under the pointer, in focus or selected is ever replaced. The server stays the truth.
(() => {
  "use strict";
  const POLL_AFTER_MS = 10000, POLL_EVERY_MS = 5000, OLD_MS = 30000, STALE_MS = 120000, REST_MS = 2000, GATHER_MS = 200, DEAF_MS = 45000, FIRST_MS = 3000;
  const body = document.body;
  const topics = (body.dataset.topics || "").split(",").filter(Boolean);
  const bar = document.getElementById("statusbar");
  const drawn = new Map(); // id -> what the server last sent for it, without its parts
  const waiting = new Map(); // id -> newer element, held back while its place is in use
  let socket = null, downSince = Date.now(), freshAt = Date.now(), eventAt = 0, retryMs = 500, restedAt = 0, hidden = false, heardAt = 0, isOut = false, isHeard = false, wasUp = false;

  // -- what the server sent, compared without the parts inside and without one-time form values
  function signature(element) {
    const copy = element.cloneNode(true);
    for (const part of copy.querySelectorAll("[data-part][id]")) {
      if (copy.contains(part)) part.replaceWith(`[${part.id}]`);
    }
    for (const field of copy.querySelectorAll("[name=csrfmiddlewaretoken], [name=idempotency_key]")) field.remove();
    for (const age of copy.querySelectorAll("[data-age], [data-running]")) age.textContent = "";
    return copy.outerHTML;
  }
  function remember(root) {
    for (const element of [root, ...root.querySelectorAll("[data-part][id]")]) {
      if (element.id) drawn.set(element.id, signature(element));
    }
  }
  function ownParts(element) {
    return [...element.querySelectorAll("[data-part][id]")].filter(
      (part) => part.parentElement.closest("[data-part][id], [data-live]") === element);
  }

  // -- putting it in place
  function inUse(element) {
    const focus = document.activeElement, marked = getSelection();
    return element.matches(":hover") || element.querySelector("details[open], dialog[open]") !== null || isFilled(element) ||
      (focus !== body && element.contains(focus)) ||
      (marked.rangeCount > 0 && !marked.isCollapsed && marked.getRangeAt(0).intersectsNode(element));
  }
  // What a person wrote or chose and has not sent, and what a refused form gave back to be mended.
  function isFilled(element) {
    const isAnswer = "answer" in body.dataset;
    return [...element.querySelectorAll("textarea, select, input:not([type=hidden])")].some((field) => {
      if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
      if (field.options) return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
      return field.value !== (isAnswer && field.form?.method === "post" ? "" : field.defaultValue);
    });
  }
  function states(element) {
    return new Map([element, ...element.querySelectorAll("[data-state]")].filter((cell) => cell.id && cell.dataset.state)
      .map((cell) => [cell.id, cell.dataset.state]));
  }
  function say(cell) {
    const said = document.getElementById("said");
    if (cell.dataset.what) said.textContent = said.dataset.changed.replace("{what}", cell.dataset.what).replace("{state}", cell.dataset.word || cell.textContent.trim());
  }
  function place(old, fresh) {
    const before = states(old), scrolls = [...old.querySelectorAll(".scroll-x, .tscroll")].map((box) => box.scrollLeft);
    const element = document.importNode(fresh, true);
    old.replaceWith(element);
    remember(element);
    waiting.delete(element.id);
    element.querySelectorAll(".scroll-x, .tscroll").forEach((box, i) => { box.scrollLeft = scrolls[i] || 0; });
    window.htmx.process(element);
    for (const [id, state] of states(element)) {
      if (!before.has(id) || before.get(id) === state) continue;
      const cell = document.getElementById(id);
      cell.classList.add("flash");
      say(cell);
    }
    document.dispatchEvent(new CustomEvent("flotilla:placed", { detail: element }));
  }
  function update(old, fresh) {
    if (drawn.get(old.id) === signature(fresh)) {
      for (const part of ownParts(fresh)) update(document.getElementById(part.id), part);
    } else if (inUse(old)) {
      waiting.set(old.id, fresh);
      restedAt = Date.now();
    } else place(old, fresh);
  }
  function placeWaiting(force) {
    for (const [id, fresh] of [...waiting]) {
      const old = document.getElementById(id);
      if (!old) waiting.delete(id);
      else if (force) place(old, fresh);
      else if (inUse(old)) restedAt = Date.now();
      else if (Date.now() - restedAt > REST_MS) place(old, fresh);
    }
  }
  body.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    if (!target.hasAttribute("data-live")) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status !== 200) return;
    const fresh = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").getElementById(target.id);
    if (!fresh) return; // signed out: the answer is another page; the bar goes stale and says to reload
    freshAt = Date.now();
    update(target, fresh);
  });

  // The session is over: say so and stay, because going to the sign-in page would lose what is being typed.
  body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.status !== 401 || !event.detail.elt.hasAttribute("data-live")) return;
    event.preventDefault();
    isOut = true;
    show();
  });

  // -- ringing
  // The first ring is answered at once, those that follow it closely together.
  const gathering = new Set(), rungAt = new Map();
  function ring(topic) {
    if (gathering.has(topic)) return;
    gathering.add(topic);
    const rest = GATHER_MS - (performance.now() - (rungAt.get(topic) ?? -GATHER_MS));
    setTimeout(() => {
      gathering.delete(topic);
      rungAt.set(topic, performance.now());
      if (document.hidden) hidden = true;
      else window.htmx.trigger(body, topic);
    }, Math.max(0, rest));
  }
  // No topic: what a page must learn also when nothing rings any more, asked for at each heartbeat and poll.
  const PULSE = "pulse";
  const ringAll = () => [...topics, PULSE].forEach(ring);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && hidden) { hidden = false; ringAll(); }
  });

  // -- the socket
  function connect() {
    const address = `${location.origin.replace(/^http/, "ws")}/ws/page/?topics=${topics.map(encodeURIComponent).join(",")}`;
    const own = socket = new WebSocket(address);
    heardAt = Date.now();
    socket.addEventListener("open", () => {
      if (own !== socket) return;
      isHeard = false;
      downSince = 0;
      wasUp = true;
      retryMs = 500;
      heardAt = Date.now();
      show();
    });
    socket.addEventListener("message", (event) => {
      if (own !== socket) return;
      let news = {};
      try { news = JSON.parse(event.data); } catch { return; }
      heardAt = Date.now();
      // The first frame says that the topics are listened to: what rang between the page's rendering and now was missed.
      if (!isHeard) ringAll();
      isHeard = true;
      if (!topics.includes(news.topic)) { // the heartbeat
        ring(PULSE);
        return;
      }
      eventAt = heardAt;
      ring(news.topic);
    });
    socket.addEventListener("close", (event) => {
      if (own === socket) lost(event.code);
    });
  }
  function lost(code) {
    downSince = downSince || Date.now();
    heardAt = code === 4403 ? Infinity : Date.now();
    show();
    if (code === 4403) return;
    setTimeout(connect, retryMs * (0.75 + Math.random() / 2));
    retryMs = Math.min(retryMs * 2, 5000);
  }
  function giveUp() { // a half-dead connection says nothing at all: no heartbeat, and for minutes not that it ended
    const dead = socket;
    socket = null;
    dead?.close();
    lost(0);
  }
  setInterval(() => {
    if (downSince && !isOut && Date.now() - downSince > POLL_AFTER_MS) ringAll();
    if (Date.now() - heardAt > DEAF_MS) giveUp();
  }, POLL_EVERY_MS);

  // -- the status bar
  function show() {
    const now = Date.now();
    if (!downSince) freshAt = now;
    const old = now - freshAt;
    const state = isOut ? "out" : !downSince ? "live" : old > STALE_MS ? "stale" : now - downSince > POLL_AFTER_MS ? "polling" : !wasUp && now - downSince < FIRST_MS ? "none" : "reconnecting"; // a page that just came is as of now
    body.classList.toggle("is-old", downSince > 0 && old > OLD_MS);
    for (const word of bar.querySelectorAll("[data-socket]")) word.hidden = word.dataset.socket !== state;
    for (const time of bar.querySelectorAll("time[data-fresh]")) time.dataset.at = String(freshAt);
    const last = bar.querySelector("[data-last-event]"), waits = bar.querySelector("[data-waits]");
    const since = last.querySelector("[data-since]");
    if (eventAt) since.dataset.age = new Date(eventAt).toISOString();
    last.hidden = !eventAt || !since.textContent; // the clock gives it its words within a second
    waits.hidden = waiting.size === 0;
    waits.querySelector("b").textContent = String(waiting.size);
  }
  bar.querySelector("[data-waits]").addEventListener("click", () => { placeWaiting(true); show(); });

  for (const root of document.querySelectorAll("[data-live]")) remember(root);
  if (!topics.length) return; // a page of facts that do not change
  setInterval(() => { placeWaiting(false); show(); }, 500);
  connect();
})();
