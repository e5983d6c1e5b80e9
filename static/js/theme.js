// Changes the theme at once and keeps the choice in the background, so that no typed text is lost to a reload.
(() => {
  "use strict";
  for (const form of document.querySelectorAll("form[data-theme-form]")) {
    form.addEventListener("submit", (event) => {
      const theme = event.submitter?.value ?? "";
      event.preventDefault();
      if (theme) document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
      for (const button of document.querySelectorAll("form[data-theme-form] button[name=theme]")) {
        button.toggleAttribute("aria-pressed", button.value === theme);
        if (button.value === theme) button.setAttribute("aria-pressed", "true");
      }
      const fields = new FormData(form, event.submitter);
      fields.set("idempotency_key", crypto.randomUUID());
      fetch(form.action, { method: "POST", body: new URLSearchParams(fields), redirect: "manual" });
    });
  }
})();
