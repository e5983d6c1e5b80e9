// Clocks, ages and running spans tick here; the server wrote the value that stands without script.
(() => {
  "use strict";
  const body = document.body;
  const ahead = (Date.parse(body.dataset.now) || Date.now()) - Date.now(); // this machine's clock may be wrong
  const patterns = (body.dataset.spans || "%(n)s s|%(n)s min|%(n)s h|%(n)s d").split("|");
  const two = (number) => String(number).padStart(2, "0");

  function clock(seconds, short) {
    const day = ((Math.floor(seconds) % 86400) + 86400) % 86400;
    return `${two(Math.floor(day / 3600))}:${two(Math.floor(day / 60) % 60)}${short ? "" : `:${two(day % 60)}`}`;
  }
  function words(seconds) {
    const [pattern, divisor] = seconds < 100 ? [patterns[0], 1] : seconds < 5400 ? [patterns[1], 60]
      : seconds < 172800 ? [patterns[2], 3600] : [patterns[3], 86400];
    return pattern.replace("%(n)s", String(Math.floor(seconds / divisor)));
  }
  function span(seconds) {
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    return hours ? `${hours}:${two(minutes)}:${two(Math.floor(seconds) % 60)}` : `${minutes}:${two(Math.floor(seconds) % 60)}`;
  }
  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  function tick() {
    const now = Date.now() + ahead;
    const zone = Number(document.querySelector("[data-clock]")?.dataset.clock || 0);
    for (const element of document.querySelectorAll("[data-clock]")) {
      write(element, clock(now / 1000 + Number(element.dataset.clock), "short" in element.dataset));
    }
    for (const element of document.querySelectorAll("[data-age]")) {
      write(element, words(Math.max(0, (now - Date.parse(element.dataset.age)) / 1000)));
    }
    for (const element of document.querySelectorAll("[data-running]")) {
      write(element, span(Math.max(0, (now - Date.parse(element.dataset.running)) / 1000)));
    }
    for (const element of document.querySelectorAll("time[data-at]")) {
      write(element, clock((Number(element.dataset.at) + ahead) / 1000 + zone, false));
    }
  }
  document.addEventListener("flotilla:placed", tick);
  setInterval(tick, 1000);
  tick();
})();
