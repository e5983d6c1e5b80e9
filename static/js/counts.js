// The counts of the navigation: one hidden element refetches them, the signs beside the entries show them.
document.addEventListener("flotilla:placed", (event) => {
  if (event.detail.id !== "counts") return;
  for (const sign of document.querySelectorAll("[data-nav-count]")) {
    sign.textContent = event.detail.dataset[sign.dataset.navCount];
    sign.hidden = sign.textContent === "0";
  }
});
