// Browser notifications for people in another tab: opt-in, with quiet hours.
"use strict";
(() => {
  const button = document.getElementById("notify");
  const able = "Notification" in window && window.isSecureContext;
  const wanted = () => localStorage.getItem("notify") === "on" && Notification.permission === "granted";
  const minutes = (text) => {
    const [h, m] = (text || "").split(":").map(Number);
    return Number.isInteger(h) && Number.isInteger(m) ? h * 60 + m : null;
  };
  // Quiet hours are of this browser, in its own zone: from may be later than until.
  const quiet = () => {
    const from = minutes(localStorage.getItem("quiet-from"));
    const until = minutes(localStorage.getItem("quiet-until"));
    if (from === null || until === null || from === until) return false;
    const now = new Date();
    const at = now.getHours() * 60 + now.getMinutes();
    return from < until ? at >= from && at < until : at >= from || at < until;
  };
  const show = () => {
    if (!button) return;
    button.hidden = !able;
    button.textContent = able && wanted() ? "Stop notifying me in this browser" : "Notify me in this browser";
  };
  if (able && button) {
    button.addEventListener("click", async () => {
      if (wanted()) localStorage.setItem("notify", "off");
      else if (await Notification.requestPermission() === "granted") localStorage.setItem("notify", "on");
      else window.operatorConsole.toast("The browser blocks notifications. Allow them in its settings.", true);
      show();
    });
  }
  for (const name of ["quiet-from", "quiet-until"]) {
    const field = document.getElementById(name);
    if (!field) continue;
    field.value = localStorage.getItem(name) || "";
    field.addEventListener("change", () => localStorage.setItem(name, field.value));
  }
  document.addEventListener("operator:entry", ({ detail }) => {
    if (!detail.note || !able || !wanted() || quiet() || document.visibilityState === "visible") return;
    // Every tab hears of it; the tag makes one message of theirs.
    const one = new Notification(detail.note.title, {
      body: detail.note.text, tag: `operator-${detail.seq}`,
    });
    one.onclick = () => { window.focus(); window.location.assign(detail.note.place); one.close(); };
  });
  show();
})();
