// Answers by keyboard: a key opens an answer and puts the focus where Enter gives it. And what
// somebody has typed stays when news of the same request come in.
"use strict";
(() => {
  document.addEventListener("toggle", (event) => {
    const one = event.target;
    if (!one.matches || !one.matches("details.answer") || !one.open) return;
    for (const other of one.parentElement.querySelectorAll("details.answer")) {
      if (other !== one) other.open = false;
    }
    // Only after a person has opened it, not when the page came anew.
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
