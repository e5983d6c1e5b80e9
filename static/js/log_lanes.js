// The lanes over the log: a box shows which time is on screen; dragging over them goes to another time.
(() => {
  "use strict";
  const LEAST_PX = 6;

  class Lanes {
    constructor(viewer, log) {
      this.viewer = viewer;
      this.log = log;
      this.box = document.getElementById("log-lanes");
      if (!this.box) return;
      this.start = Number(this.box.dataset.start);
      this.end = Number(this.box.dataset.end);
      this.track = this.box.querySelector(".trk");
      this.span = document.createElement("i");
      this.span.className = "span-box";
      this.box.append(this.span);
      this.listen();
    }
    listen() {
      let from = null, moved = false;
      this.box.addEventListener("dragstart", (event) => event.preventDefault());
      this.box.addEventListener("pointerdown", (event) => { from = event.button === 0 ? event.clientX : null; moved = false; });
      this.box.addEventListener("pointermove", (event) => {
        if (from === null) return;
        moved = moved || Math.abs(event.clientX - from) > LEAST_PX;
        if (moved) this.place(this.time(event.clientX), this.time(event.clientX));
      });
      addEventListener("pointerup", (event) => {
        if (from !== null && moved) this.go(this.time(event.clientX));
        from = null;
      });
      this.box.addEventListener("click", (event) => { if (moved) event.preventDefault(); }, true);
    }
    time(x) {
      const track = this.track.getBoundingClientRect(), part = Math.min(1, Math.max(0, (x - track.left) / track.width));
      return Math.round(this.start + (this.end - this.start) * part);
    }
    go(at) {
      const { base, query } = this.viewer.dataset;
      location.assign(`${base}?${query ? `${query}&` : ""}t=${at}`);
    }
    place(first, last) {
      const track = this.track.getBoundingClientRect(), whole = this.box.getBoundingClientRect();
      const scale = track.width / Math.max(1, this.end - this.start);
      const left = Math.min(track.width, Math.max(0, (first - this.start) * scale));
      const right = Math.min(track.width, Math.max(left, (last - this.start) * scale));
      this.span.style.left = `${track.left - whole.left + left - 2}px`;
      this.span.style.width = `${right - left + 4}px`;
    }
    follow() { // called while the log scrolls: once a frame is enough
      if (!this.box || this.queued) return;
      this.queued = true;
      requestAnimationFrame(() => {
        this.queued = false;
        const view = this.log.getBoundingClientRect();
        const at = (y) => document.elementFromPoint(view.left + 80, y)?.closest(".ln[data-s]")?.querySelector("time")?.dateTime;
        const first = Date.parse(at(view.top + 6)), last = Date.parse(at(view.bottom - 8));
        this.span.hidden = Number.isNaN(first) && Number.isNaN(last);
        if (!this.span.hidden) this.place(first || last, last || first);
      });
    }
  }
  window.FlotillaLog.Lanes = Lanes;
})();
