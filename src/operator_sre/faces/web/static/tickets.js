// The output of commands in one terminal: the chosen command, or the one that is running.
"use strict";
(() => {
  const card = document.getElementById("screen");
  if (!card || !window.Terminal || !window.operatorScreen) return; // the links still work
  const title = document.getElementById("screen-title");
  const state = document.getElementById("screen-state");
  let screen = null, source = null, shown = "", chosen = false, closed = "";

  const tell = (text, kind = "") => { state.textContent = text; state.className = `badge ${kind}`; };
  const stop = () => { source?.close(); source = null; };
  const show = (seq, name) => {
    stop();
    card.hidden = false;
    screen ??= window.operatorScreen(document.getElementById("screen-box"));
    screen.clear();
    shown = seq;
    title.textContent = `Output of ${name || `command ${seq}`}`;
    tell("running", "act");
    source = new EventSource(`/parts/outputs/${encodeURIComponent(seq)}`);
    source.onmessage = ({ data }) => {
      const told = JSON.parse(data);
      if (told.anew) screen.clear();
      if (told.text) screen.write(told.text);
      if (told.cut) screen.cut(told.cut);
      if (told.rest) screen.write(told.rest);
      if (told.over !== undefined) { tell(told.over); stop(); }
    };
    // It would reconnect by itself and show everything twice.
    source.onerror = () => { tell("connection lost", "warn"); stop(); };
  };
  window.operatorOutput = () => screen; // for tests and debugging

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-output]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    chosen = true;
    show(link.dataset.output, link.dataset.title);
    card.scrollIntoView({ block: "nearest" });
  });
  document.getElementById("screen-close").addEventListener("click", () => {
    stop();
    card.hidden = true;
    closed = shown;
    chosen = false;
    shown = "";
  });
  const follow = () => {
    const running = document.querySelector("#commands [data-running]")?.dataset.running;
    if (!running || running === shown || running === closed || (chosen && source)) return;
    chosen = false;
    show(running, document.getElementById(`output-${running}`)?.dataset.title);
  };
  document.addEventListener("htmx:afterSwap", (event) => { if (event.detail.target.id === "commands") follow(); });
  window.addEventListener("pagehide", stop);
  follow();
})();
