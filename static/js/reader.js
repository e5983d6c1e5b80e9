// A file that is dropped on the reader's form becomes its chosen file; dropped or pasted text goes to the text area.
(() => {
  "use strict";
  for (const form of document.querySelectorAll("form[data-drop]")) {
    const input = form.querySelector("input[type=file]");
    const holdsFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    form.addEventListener("dragover", (event) => {
      if (!holdsFile(event)) return;
      event.preventDefault();
      form.classList.add("over");
    });
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      form.classList.remove("over");
      if (!holdsFile(event)) return;
      event.preventDefault();
      input.files = event.dataTransfer.files;
      input.focus();
    });
  }
})();
