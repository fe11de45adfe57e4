// Answers by keyboard: a key opens an answer and focuses the button that Enter presses. Typed text
// survives a refresh of the same request.
"use strict";
(() => {
  document.addEventListener("toggle", (event) => {
    const one = event.target;
    if (!one.matches || !one.matches("details.answer") || !one.open) return;
    for (const other of one.parentElement.querySelectorAll("details.answer")) {
      if (other !== one) other.open = false;
    }
    // Only when a person opened it, not after a reload.
    if (document.activeElement === one.firstElementChild) one.querySelector("[data-first]")?.focus();
  }, true);

  const FIELDS = "input[id], select[id], textarea[id]";
  const typed = new WeakMap();
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target } = event.detail;
    if (!target.matches("[data-keep]")) return;
    typed.set(target, [...target.querySelectorAll(FIELDS)].map((one) => [one.id, one.value, one.checked]));
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const [id, value, checked] of typed.get(event.detail.target) || []) {
      const one = document.getElementById(id);
      if (!one || !one.matches(FIELDS)) continue;
      if (one.type === "radio" || one.type === "checkbox") one.checked = checked;
      else one.value = value;
    }
  });
})();
