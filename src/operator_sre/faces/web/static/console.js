// What every page does by itself: times in the zone of whoever looks, what is left of a time,
// sentences about what was done, and shortcuts. A page works without it.
"use strict";
(() => {
  const SECOND = 1000;
  // What is left of a time is counted by the clock of the server, however wrong ours may be.
  const told = new Date(document.body.dataset.now || NaN).getTime();
  const ahead = Number.isNaN(told) ? 0 : told - Date.now();
  const now = () => Date.now() + ahead;
  const all = (what, where = document) => [...where.querySelectorAll(what)];

  // Times. The server tells UTC, which stays in the title.
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const span = (s) => {
    if (s < 60) return `${Math.max(0, Math.floor(s))} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d`;
  };
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const tell = (where = document) => {
    for (const one of all("time[datetime]", where)) {
      const at = new Date(one.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const style = one.dataset.style;
      if (style === "ago") put(one, `${span((now() - at) / SECOND)} ago`);
      // What is of today needs no date.
      else put(one, (style === "clock" || day.format(at) === day.format(now()) ? clock : whole).format(at));
    }
    // Pictures have the time of day in UTC, and the day beside them.
    for (const one of all("[data-utc] text.tick", where)) {
      const found = /^(\d\d):(\d\d)(:\d\d)?( UTC)?(.*)$/.exec(one.textContent);
      if (one.dataset.told || !found) continue;
      const at = new Date(one.closest("[data-utc]").dataset.utc);
      at.setUTCHours(Number(found[1]), Number(found[2]), Number((found[3] || ":0").slice(1)));
      const utc = document.createElementNS(one.namespaceURI, "title");
      utc.textContent = `${found[1]}:${found[2]}${found[3] || ""} UTC`;
      one.dataset.told = "yes";
      one.replaceChildren(clock.format(at) + found[5], utc);
    }
    for (const one of all("[data-until]", where)) {
      const left = (new Date(one.dataset.until) - now()) / SECOND;
      const total = Math.max(0, Math.ceil(left));
      const text = total >= 3600 ? span(total)
        : `${Math.floor(total / 60)}:${String(total % 60).padStart(2, "0")}`;
      put(one, left > 0 ? `${text} left` : "time is up");
      one.classList.toggle("late", left < 60);
    }
  };

  // How many answers are wanted stands in the title, so that it is seen from another tab.
  const title = document.title;
  const badge = () => {
    const count = all("[data-pending]").reduce((sum, one) => sum + Number(one.dataset.pending), 0);
    document.title = count ? `(${count}) ${title}` : title;
  };

  // Sentences.
  const toast = (text, bad = false) => {
    const box = document.getElementById("toasts");
    if (!box || !text) return;
    const one = document.createElement("p");
    one.className = bad ? "toast bad" : "toast";
    one.textContent = text;
    box.append(one);
    while (box.children.length > 4) box.firstElementChild.remove();
    setTimeout(() => one.remove(), bad ? 12 * SECOND : 6 * SECOND);
  };
  document.addEventListener("toast", (event) => toast(event.detail.text, event.detail.bad));

  // A session that is over shows nothing any more, unless words that somebody typed would be lost.
  const isTyped = (one) => one.value !== one.defaultValue;
  const signedOut = () => {
    const here = location.pathname + location.search;
    const link = document.getElementById("signed-out");
    link.href = `/sign-in?over=yes&next=${encodeURIComponent(here)}`;
    if (all("main input[type=text], main input:not([type]), main textarea").some(isTyped)) link.hidden = false;
    else location.replace(link.href);
  };

  // Parts of the page that came anew.
  const opened = new WeakMap();
  // Whoever moves by the keyboard stays where they are: on the same link, or the same button of the
  // same form. What is not there any more has no successor, so that nobody presses something else.
  const focused = new WeakMap();
  const placeOf = (one) => {
    if (one.id) return () => document.getElementById(one.id);
    if (one.matches("a[href]")) {
      const link = `a[href="${CSS.escape(one.getAttribute("href"))}"]`;
      return (where) => where.querySelector(link);
    }
    if (one.matches("details[id] > summary")) {
      return () => document.getElementById(one.parentElement.id)?.firstElementChild;
    }
    if (!one.form) return () => null;
    const form = `form[action="${CSS.escape(one.form.getAttribute("action"))}"]`;
    const text = one.textContent, at = [...one.form.elements].indexOf(one);
    const within = one.closest("details[id]")?.id;
    return (where) => {
      const next = (within ? document.getElementById(within) : where)?.querySelector(form)?.elements[at];
      return next && next.textContent === text ? next : null;
    };
  };
  document.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target, one = document.activeElement;
    opened.set(target, all("details[open][id]", target).map((it) => it.id));
    if (target !== one && target.contains(one)) focused.set(target, placeOf(one));
    else focused.delete(target);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target;
    for (const id of opened.get(target) || []) {
      const one = document.getElementById(id);
      if (one) one.open = true;
    }
    const find = focused.get(target), next = find && find(target);
    if (next && next !== document.activeElement) next.focus({ preventScroll: true });
    tell(target);
    badge();
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { xhr, elt } = event.detail;
    const seal = xhr && xhr.getResponseHeader("x-seal");
    const form = elt.closest("form");
    if (seal && form && form.elements.seal) form.elements.seal.value = seal;
  });
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    if (xhr.status === 401) signedOut();
    else if (!xhr.getResponseHeader("hx-trigger")) {
      toast(xhr.status === 429 ? "Too much at once; wait a moment." : "That did not work.", true);
    }
  });
  document.addEventListener("htmx:sendError", (event) => {
    // What refreshes itself tries again; only what a person sent is told.
    if (event.detail.requestConfig && event.detail.requestConfig.verb !== "get") {
      toast("The console cannot be reached. Nothing was sent.", true);
    }
  });

  // Shortcuts. They can be turned off, because software that listens to speech types letters.
  const keysOn = () => localStorage.getItem("keys") !== "off";
  let after = "";
  const rows = () => all("[data-row]").filter((one) => one.offsetParent !== null);
  const move = (by) => {
    const found = rows();
    const at = found.indexOf(document.activeElement);
    const next = found[Math.min(found.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    if (next) next.focus();
  };
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.firstElementChild.focus(); return; }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
      event.preventDefault();
      event.target.form?.requestSubmit();
      return;
    }
    const typing = event.target.closest("input, textarea, select, [contenteditable], .xterm");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || !keysOn()) return;
    const key = event.key;
    const before = after;
    after = "";
    const press = (what) => {
      const one = all(what).find((it) => it.offsetParent !== null && !it.disabled);
      if (one) { event.preventDefault(); one.click(); one.focus(); }
      return Boolean(one);
    };
    if (!/^[\w?/]$/.test(key)) return;
    if (before === "g" && press(`[data-go="${CSS.escape(key)}"]`)) return;
    if (document.querySelector("dialog[open]")) return;
    if (key === "g") { after = "g"; return; }
    if (key === "?") { document.getElementById("keys")?.showModal(); return; }
    if (key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.focus(); }
      return;
    }
    if (key === "j" || key === "k") { move(key === "j" ? 1 : -1); return; }
    // Of several the one in the row or card that has the focus is meant.
    const near = document.activeElement.closest("[data-keys]");
    const wanted = `[data-key="${CSS.escape(key)}"]`;
    const inner = near && near.querySelector(wanted);
    if (inner) { event.preventDefault(); inner.click(); inner.focus(); } else press(wanted);
  });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
    for (const menu of all("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  const begin = () => {
    // On a phone the list of pages is wider than the screen.
    const here = document.querySelector(".places [aria-current]");
    const list = here && here.closest("ul");
    if (list) list.scrollLeft = here.offsetLeft - (list.clientWidth - here.offsetWidth) / 2;
    tell();
    badge();
    setInterval(tell, SECOND);
    for (const one of all("#toasts .toast")) setTimeout(() => one.remove(), 8 * SECOND);
    const box = document.getElementById("keys-on");
    if (box) {
      box.checked = keysOn();
      box.addEventListener("change", () => localStorage.setItem("keys", box.checked ? "on" : "off"));
    }
  };
  window.operatorConsole = { toast, tell, signedOut };
  begin();
})();
