// Where live lines come from: the log's socket, or polling by the same cursor while there is none.
// Whatever breaks, no line is missed and none comes twice: every answer says which lines it covers.
(() => {
  "use strict";
  const POLL_AFTER_MS = 10000, POLL_EVERY_MS = 5000, STALE_MS = 10000, UNCAPTURED_MS = 30000, LONGEST_RETRY_MS = 5000, DEAF_MS = 20000;
  const FINAL = new Set([4400, 4403, 4404]);

  class Feed {
    // take(lines, after): new lines and how far each stream is known; say(state, ageMs): live, reconnecting ...
    constructor(viewer, after, take, say) {
      this.url = `${location.origin.replace(/^http/, "ws")}${viewer.dataset.socket}`;
      this.linesUrl = viewer.dataset.lines;
      this.query = new URLSearchParams(viewer.dataset.query);
      this.after = new Map(after);
      this.take = take;
      this.say = say;
      this.heardAt = this.downSince = Date.now();
      this.retryMs = 500;
      this.state = "reconnecting";
      this.skewMs = 0;
      this.captured = {};
      this.over = new Set(); // streams of which everything was sent
      this.connect();
      setInterval(() => this.tick(), 1000);
    }
    cursor() { return [...this.after].map(([stream, line]) => `${stream}:${line}`).join(","); }
    restart(after) { // go on from another place
      this.after = new Map(after);
      this.ask();
    }
    ask() {
      if (this.socket?.readyState !== WebSocket.OPEN) return;
      this.socket.send(JSON.stringify({ after: Object.fromEntries(this.after), ...Object.fromEntries(this.query) }));
    }

    connect() {
      const socket = this.socket = new WebSocket(this.url), isOurs = () => socket === this.socket;
      this.spokeAt = Date.now();
      socket.addEventListener("open", () => isOurs() && this.ask());
      socket.addEventListener("message", (event) => isOurs() && this.hear(event.data));
      socket.addEventListener("close", (event) => isOurs() && this.closed(event.code));
    }
    closed(code) {
      this.downSince = this.downSince || Date.now();
      if (FINAL.has(code)) {
        this.ended = true;
        this.tell(code === 4403 ? "denied" : "");
        return;
      }
      this.tell("reconnecting");
      setTimeout(() => this.connect(), this.retryMs * (0.75 + Math.random() / 2));
      this.retryMs = Math.min(this.retryMs * 2, LONGEST_RETRY_MS);
    }
    hear(text) {
      const said = JSON.parse(text);
      this.heardAt = this.spokeAt = Date.now();
      this.downSince = 0;
      this.retryMs = 500;
      if (said.lines) this.cover(said);
      else if (said.clock) { this.skewMs = said.clock - Date.now(); this.captured = said.captured_at; }
      else if (said.ended) this.over.add(said.stream);
      else if (said.changed) this.onChanged?.();
      this.tell(this.isUncaptured() ? "uncaptured" : "live");
    }
    cover(frame) {
      const known = this.after.get(frame.stream) ?? 0, last = frame.first_line + frame.count - 1;
      if (last <= known) return;
      if (frame.first_line > known + 1) { // an answer to an older question; ask again
        this.ask();
        return;
      }
      this.after.set(frame.stream, last);
      const lines = frame.lines.filter((line) => line[0] > known).map((line) => this.line(frame.stream, line));
      this.take(lines, this.after);
    }
    line(stream, [number, at, rank, level, part, text]) { return { stream, number, at, rank, level, part, text }; }
    isUncaptured() {
      const now = Date.now() + this.skewMs;
      return Object.entries(this.captured).some(([stream, at]) => at !== null && now - at > UNCAPTURED_MS && !this.over.has(Number(stream)));
    }

    tick() {
      const down = this.downSince && Date.now() - this.downSince;
      if (!this.ended && down > POLL_AFTER_MS && !this.polling && Date.now() - (this.polledAt || 0) > POLL_EVERY_MS) this.poll();
      if (!this.ended && Date.now() - this.spokeAt > DEAF_MS) this.giveUp();
      this.tell(this.state);
    }
    giveUp() { // an open connection speaks every 5 s; a dead one takes minutes to say that it ended
      const dead = this.socket;
      this.socket = null;
      this.spokeAt = Date.now();
      dead?.close();
      this.closed(0);
    }
    async poll() {
      this.polling = true;
      try {
        const page = await this.fetch({ after: this.cursor(), limit: 2000 });
        this.heardAt = Date.now();
        if (this.downSince) {
          for (const [stream, line] of parseCursor(page.after)) this.after.set(stream, line);
          this.take(page.lines, this.after);
          this.tell("polling");
          this.polledAt = page.has_newer && page.lines.length ? 0 : Date.now();
        }
      } catch { this.polledAt = Date.now(); } finally { this.polling = false; }
    }
    async fetch(parts) {
      const query = new URLSearchParams([...this.query, ...Object.entries(parts).map(([name, value]) => [name, String(value)])]);
      const answer = await fetch(`${this.linesUrl}?${query}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const page = await answer.json();
      page.lines = page.lines.map(([stream, ...rest]) => this.line(stream, rest));
      return page;
    }
    tell(state) {
      this.state = state;
      const age = Date.now() - this.heardAt;
      this.say(state, age > STALE_MS ? age : 0);
    }
  }
  function parseCursor(text) {
    return new Map((text || "").split(",").filter(Boolean).map((pair) => pair.split(":").map(Number)));
  }
  Object.assign(window.FlotillaLog, { Feed, parseCursor });
})();
