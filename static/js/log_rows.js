// Rows of the log: builds them from facts with text nodes only, folds what several ranks say, keeps at most 2,000.
// Not in charge of where lines come from (log_feed.js) nor of what a person does with them (log.js).
(() => {
  "use strict";
  const MOST_ROWS = 2000, MOST_DRAWN = 200, WITHIN_MS = 5000, NAMED = 16;
  const looks = { D: "dbg", I: "info", W: "warn", E: "err" };
  const signs = { W: "warn", E: "crit" }; // quiet lines have a character for a sign, which costs less
  const svg = "http://www.w3.org/2000/svg";
  const HEAD = /^(?:\([A-Za-z][^()]{0,80}\)\s*|\[rank\d{1,5}\]:\s*|[^\s:]{1,253}:\d{1,10}:\d{1,10} \[\d{1,4}\]\s*){1,4}/;
  const VARYING = /0x[0-9a-f]{1,32}|\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b|\d+(?:[.,:-]\d+)*/gi;

  const pad = (number, width) => String(number).padStart(width, "0");
  const plain = (text) => (typeof text === "string" ? text : text.map((piece) => piece[0]).join(""));
  const signature = (line) => `${line.level}|${plain(line.text).slice(0, 512).replace(HEAD, "").replace(VARYING, "#").replace(/\s+/g, " ").slice(0, 200)}`;

  function create(name, className, text) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  class Rows {
    constructor(viewer) {
      this.box = document.getElementById("log-rows");
      this.words = document.getElementById("log-words").dataset;
      this.offsetMs = Number(viewer.dataset.offsetS) * 1000;
      this.folds = viewer.dataset.fold === "1";
      this.position = new Map(viewer.dataset.positions.split(",").filter(Boolean).map((pair) => pair.split(":").map(Number)));
      this.node = new Map(viewer.dataset.nodes.split(",").filter(Boolean).map((pair) => { const [id, name] = pair.split(":"); return [Number(id), name]; }));
      this.heads = new Map();
      this.count = this.box.querySelectorAll(".ln[data-s]").length;
      this.model = this.build();
    }
    key(line) { return `${this.position.get(line.stream)}.${line.number}`; }
    rank(line) { return line.rank === null ? `n${this.position.get(line.stream)}` : `r${pad(line.rank, 2)}`; }

    build() { // the row that all others are copies of
      const row = create("div");
      row.append(create("a"), create("time", "ts"), create("span", "rk"), create("span"), create("span", "ss"), create("span", "ms"));
      row.children[1].append(create("span", "hh"), "");
      return row;
    }
    sign(box, level) {
      const word = this.words[level.toLowerCase()] || "", shape = signs[level];
      box.className = `t-${shape || "idle"}`;
      const picture = shape ? document.createElementNS(svg, "svg") : box;
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", word);
      if (!shape) { box.textContent = "–"; return; }
      picture.append(document.createElementNS(svg, "use"));
      picture.firstChild.setAttribute("href", `#s-${shape}`);
      box.append(picture);
    }
    element(line) {
      const row = this.model.cloneNode(true), [number, time, rank, level, part, text] = row.children;
      const key = this.key(line), local = new Date(line.at + this.offsetMs);
      row.className = `ln ${looks[line.level] || "info"}`;
      row.id = `L${key}`;
      Object.assign(row.dataset, { s: line.stream, n: line.number });
      number.href = `#L${key}`;
      number.textContent = line.number;
      time.dateTime = time.title = new Date(line.at).toISOString();
      time.firstChild.textContent = `${pad(local.getUTCHours(), 2)}:`;
      time.lastChild.nodeValue = `${pad(local.getUTCMinutes(), 2)}:${pad(local.getUTCSeconds(), 2)}.${pad(local.getUTCMilliseconds(), 3)}`;
      rank.textContent = this.rank(line);
      rank.title = this.node.get(line.stream) || "";
      this.sign(level, line.level);
      part.textContent = line.part;
      if (typeof line.text === "string") text.textContent = line.text;
      else for (const [piece, bold] of line.text) text.append(bold ? create("b", "", piece) : piece);
      return row;
    }

    // -- adding: `lines` are in order of time
    append(lines) {
      const draw = this.few(lines), fragment = document.createDocumentFragment();
      if (draw.hidden.length) fragment.append(this.many(draw.hidden));
      for (const line of draw.shown) this.put(line, fragment);
      this.box.append(fragment);
      return this.trim(true);
    }
    put(line, fragment) {
      if (document.getElementById(`L${this.key(line)}`)) return;
      if (!this.join(line, fragment)) fragment.append(this.head(line));
      this.count += 1;
    }
    prepend(lines) {
      const fragment = document.createDocumentFragment(), newer = this.heads;
      this.heads = new Map(); // older lines fold among themselves
      for (const line of lines) this.put(line, fragment);
      this.heads = newer;
      this.box.prepend(fragment);
      return this.trim(false);
    }
    replace(lines) {
      this.box.replaceChildren();
      this.heads.clear();
      this.count = 0;
      for (let at = 0; at < lines.length; at += MOST_DRAWN) this.append(lines.slice(at, at + MOST_DRAWN));
    }
    few(lines) { // at most 200 at a time; errors are drawn in any case
      if (lines.length <= MOST_DRAWN) return { shown: lines, hidden: [] };
      const cut = lines.length - MOST_DRAWN;
      const shown = lines.filter((line, at) => at >= cut || line.level === "E").slice(-2 * MOST_DRAWN);
      const drawn = new Set(shown);
      return { shown, hidden: lines.filter((line) => !drawn.has(line)) };
    }
    many(lines) {
      const row = create("a", "ln fold many", undefined), viewer = document.getElementById("log-viewer");
      row.href = `${viewer.dataset.base}?at=${this.key(lines[0])}#L${this.key(lines[0])}`;
      row.append(create("span", "", "⋯"), create("span", "ms link", this.words.many.replace("{n}", lines.length)));
      return row;
    }
    head(line) {
      const row = this.element(line);
      if (this.folds && line.rank !== null) this.heads.set(signature(line), { row, line, ranks: new Set([line.rank]), list: null });
      return row;
    }
    join(line, fragment) { // true when another rank said the same within 5 s
      if (!this.folds || line.rank === null) return false;
      const head = this.heads.get(signature(line));
      if (!head || line.at - head.line.at > WITHIN_MS || head.ranks.has(line.rank)) return false;
      if (!head.row.isConnected && !fragment.contains(head.row)) return false;
      if (!head.list) {
        head.list = create("details", "logfold");
        const summary = create("summary", "ln fold");
        summary.append(create("span", "", "⋯"), create("span", "ms link"));
        head.list.append(summary);
        head.row.after(head.list);
      }
      head.ranks.add(line.rank);
      head.list.append(this.element(line));
      const others = [...head.ranks].filter((rank) => rank !== head.line.rank).sort((a, b) => a - b);
      const names = others.slice(0, NAMED).map((rank) => `r${pad(rank, 2)}`).join(" ") + (others.length > NAMED ? " …" : "");
      const words = others.length === 1 ? this.words.moreOne : this.words.more;
      head.list.querySelector("summary .ms").textContent = words.replace("{n}", others.length)
        .replace("{s}", Math.max(1, Math.ceil((line.at - head.line.at) / 1000))).replace("{ranks}", names);
      return true;
    }

    // -- forgetting: returns stream -> number of the last line that went
    trim(fromTop) {
      const gone = new Map();
      while (this.count > MOST_ROWS) {
        const block = fromTop ? this.box.firstElementChild : this.box.lastElementChild;
        for (const row of block.matches("[data-s]") ? [block] : block.querySelectorAll("[data-s]")) {
          const stream = Number(row.dataset.s), number = Number(row.dataset.n), before = gone.get(stream);
          gone.set(stream, before === undefined ? number : fromTop ? Math.max(before, number) : Math.min(before, number));
          this.count -= 1;
        }
        block.remove();
      }
      return gone;
    }
  }
  window.FlotillaLog = { Rows, plain };
})();
