// Marks of the log page: one line or a range of one node, kept in the address as #L1.18392 or #L1.18392-1.18401.
(() => {
  "use strict";
  function parts(hash) {
    const found = /^#?L?(\d+)\.(\d+)(?:-(\d+)\.(\d+))?$/.exec(hash);
    return found && { position: Number(found[1]), first: Number(found[2]), last: Number(found[3] === found[1] ? found[4] : found[2]) };
  }

  class Marks {
    // show(row): a line was gone to; hold(key): a person touched a line
    constructor(viewer, rows, show, hold) {
      this.viewer = viewer;
      this.rows = rows;
      this.show = show;
      this.anchor = null;
      rows.box.addEventListener("click", (event) => {
        const row = event.target.closest(".ln[data-s]");
        if (!row) return;
        const number = row.firstElementChild; // has no room on a phone: there the line stands for it
        if (number.contains(event.target) || !number.offsetParent) this.click(event, row);
        else hold(row.id.slice(1));
      });
    }
    click(event, row) {
      event.preventDefault();
      const key = row.id.slice(1), same = this.anchor && event.shiftKey && this.anchor.split(".")[0] === key.split(".")[0];
      if (!same) this.anchor = key;
      const wanted = same ? `${this.anchor}-${key}` : key;
      history.replaceState(null, "", `#L${wanted}`);
      this.mark(parts(wanted));
      this.show(row);
    }
    mark(range) { // returns the first marked row
      for (const row of this.rows.box.querySelectorAll(".ln.at")) row.classList.remove("at");
      if (!range) return null;
      const [low, high] = [Math.min(range.first, range.last), Math.max(range.first, range.last)];
      for (const row of this.rows.box.querySelectorAll(".ln[data-s]")) {
        const own = Number(row.dataset.n);
        if (row.id.startsWith(`L${range.position}.`) && own >= low && own <= high) row.classList.add("at");
      }
      const first = document.getElementById(`L${range.position}.${range.first}`), fold = first?.closest("details");
      if (fold) fold.open = true;
      return first;
    }
    clear() {
      this.mark(null);
      history.replaceState(null, "", location.pathname + location.search);
    }
    go(key) { // to a line that may not be on the page
      const row = this.mark(parts(key));
      if (row) {
        history.replaceState(null, "", `#L${key}`);
        this.show(row);
        return;
      }
      const { base, query } = this.viewer.dataset;
      location.assign(`${base}?${query ? `${query}&` : ""}${this.rows.folds ? "" : "fold=0&"}at=${key}#L${key}`);
    }
    open(hash) { // the address that the page was opened with
      const wanted = parts(hash), row = wanted && this.mark(wanted);
      if (row) this.show(row);
      else if (wanted && !new URLSearchParams(location.search).has("at")) this.go(hash.slice(2));
      return Boolean(wanted);
    }
  }
  window.FlotillaLog.Marks = Marks;
})();
