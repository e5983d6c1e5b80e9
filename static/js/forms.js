// A form that was sent shows it on its button, which keeps its place and size; a second click sends nothing more.
(() => {
  "use strict";
  document.addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter;
    if (event.defaultPrevented || form.method !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    button?.setAttribute("aria-busy", "true");
  });
  // back from the next page: the form may be sent again
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
    for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  });
})();
