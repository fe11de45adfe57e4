// The stream: this browser gets each event once and reloads the parts of the page that it affects.
// Nothing is missed: a reconnect names the last entry it saw.
//
// data-live of a part lists its topics, and hx-get its address.
"use strict";
(() => {
  const JITTER_MS = 40; // so that many viewers do not reload at the same moment
  const GAP_MS = 250; // minimum time between two reloads of a part
  const RECENT_MAX = 500;
  const start = Number(document.body.dataset.seq);
  if (!window.EventSource || Number.isNaN(start) || !document.querySelector("[data-live]")) return;
  const state = new WeakMap();
  const recent = [];
  let last = start;

  const isBusy = (part) => {
    const one = document.activeElement;
    return one && part.contains(one) && one.matches("input, textarea, select");
  };
  const refresh = (part) => {
    const known = state.get(part) || { timer: 0, at: 0 };
    state.set(part, known);
    if (known.timer) return;
    const wait = Math.max(Math.random() * JITTER_MS, known.at + GAP_MS - Date.now());
    known.timer = setTimeout(() => {
      known.timer = 0;
      if (!part.isConnected) return;
      if (isBusy(part)) { // keep what somebody is typing
        part.addEventListener("focusout", () => setTimeout(() => refresh(part), 200), { once: true });
        return;
      }
      known.at = Date.now();
      window.htmx.trigger(part, "live");
    }, wait);
  };
  const hear = (event) => {
    if (event.seq <= last && event.kind !== "anew") return;
    last = Math.max(last, event.seq);
    const topics = new Set(event.topics);
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live.split(" ");
      if (topics.has("*") || wanted.some((one) => topics.has(one))) refresh(part);
    }
    document.dispatchEvent(new CustomEvent("operator:entry", { detail: event }));
  };

  // A browser opens only six connections to one host, so one tab listens for all of them.
  const channel = window.BroadcastChannel ? new BroadcastChannel("operator-stream") : null;
  let leads = false;
  const keep = (event) => {
    recent.push(event);
    if (recent.length > RECENT_MAX) recent.shift();
  };
  const shown = (on) => {
    document.getElementById("link").hidden = on;
    if (on) document.getElementById("signed-out").hidden = true;
    if (leads) channel?.postMessage({ shown: on });
  };
  const signedOut = () => {
    if (leads) channel?.postMessage({ out: true });
    window.operatorConsole.signedOut();
  };
  // An EventSource does not say why it was refused, so another request tells whether we are signed out.
  const asked = async () => {
    try {
      const answer = await fetch("/parts/standing", { headers: { "hx-request": "true" } });
      if (answer.status === 401) signedOut();
    } catch { /* the server is down; the next attempt tells */ }
  };
  const listen = () => {
    leads = true;
    let source, retry = 500;
    const open = () => {
      source = new EventSource(`/stream?after=${last}`);
      source.onopen = () => { retry = 500; shown(true); };
      source.onmessage = (message) => {
        const event = JSON.parse(message.data);
        keep(event);
        channel?.postMessage({ event, leader: true });
        hear(event);
      };
      source.onerror = () => {
        shown(false);
        if (source.readyState !== EventSource.CLOSED) return; // it reconnects by itself
        asked();
        setTimeout(open, retry + Math.random() * retry);
        retry = Math.min(15000, retry * 2);
      };
    };
    open();
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  };
  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.event) hear(data.event);
      else if (data.shown !== undefined) shown(data.shown);
      else if (data.out) signedOut();
      else if (data.since !== undefined && leads) {
        for (const event of recent) if (event.seq > data.since) channel.postMessage({ event });
      }
    };
  }
  window.addEventListener("load", () => {
    if (channel && navigator.locks) {
      channel.postMessage({ since: start });
      navigator.locks.request("operator-stream", () => new Promise(listen));
    } else listen();
  });
})();
