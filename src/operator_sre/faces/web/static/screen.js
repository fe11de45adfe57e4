// A terminal that only shows: what programs say stays in its box. It cannot change the title, the
// clipboard or the page, makes no links, and answers no question of a program.
"use strict";
(() => {
  // xterm makes styles of its own; a page of ours takes them as sheets, never as elements.
  const styled = () => {
    if (styled.done) return;
    styled.done = true;
    const create = document.createElement.bind(document);
    document.createElement = (name, options) => {
      if (name !== "style") return create(name, options);
      // Even an empty element would be refused, so that another one takes its place.
      const one = create("span"), sheet = new CSSStyleSheet();
      document.adoptedStyleSheets.push(sheet);
      one.hidden = true;
      Object.defineProperty(one, "sheet", { get: () => sheet });
      Object.defineProperty(one, "textContent", { set(text) { sheet.replaceSync(text); }, get() { return ""; } });
      return one;
    };
    // The same for the colours of single letters, which it sets as attributes.
    const set = Element.prototype.setAttribute;
    Element.prototype.setAttribute = function (name, value) {
      if (name === "style") this.style.cssText = value;
      else set.call(this, name, value);
    };
  };
  const FRAME_MAX = 64 * 1024;    // characters for one frame: the rest waits for the next
  const WAITING_MAX = 512 * 1024; // more than that, and the middle of it is left out
  // Titles, icons, folders, links, notices, colours, the clipboard: none of them is for programs.
  const DEAF = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 19, 21, 50, 51, 52, 99, 104, 105, 110, 111, 112, 133, 633, 777, 1337];

  window.operatorScreen = (box, options = {}) => {
    styled();
    const term = new window.Terminal({
      convertEol: true, disableStdin: true, cursorBlink: false, scrollback: 5000, fontSize: 13,
      linkHandler: null, screenReaderMode: false, allowProposedApi: false, windowOptions: {},
      theme: { background: "#11151c", foreground: "#e3e8ef" }, ...options,
    });
    const fit = window.FitAddon ? new window.FitAddon.FitAddon() : null;
    if (fit) term.loadAddon(fit);
    term.open(box);
    for (const code of DEAF) term.parser.registerOscHandler(code, () => true);
    const fitted = () => { if (fit && box.offsetParent !== null) fit.fit(); };
    fitted();
    new ResizeObserver(fitted).observe(box);

    let waiting = [], size = 0, dropped = 0, drawing = false;
    const draw = () => {
      let text = "";
      while (waiting.length && text.length < FRAME_MAX) {
        const next = waiting.shift();
        const room = FRAME_MAX - text.length;
        text += next.slice(0, room);
        if (next.length > room) waiting.unshift(next.slice(room));
      }
      size -= text.length;
      // The next frame begins when this text is on the screen, so that the page stays quick.
      term.write(text, () => {
        if (waiting.length) requestAnimationFrame(draw);
        else drawing = false;
      });
    };
    const write = (text) => {
      if (!text) return;
      waiting.push(text);
      size += text.length;
      if (size > WAITING_MAX) {
        const all = waiting.join("");
        const keep = WAITING_MAX / 4;
        const left = all.length - 2 * keep;
        dropped += left;
        waiting = [all.slice(0, keep), said(left), all.slice(-keep)];
        size = waiting.reduce((sum, one) => sum + one.length, 0);
      }
      if (!drawing) { drawing = true; requestAnimationFrame(draw); }
    };
    // Ends whatever a program has begun before we speak ourselves: a colour, or half a sequence.
    const said = (count) => `\x1b\\\x1b[0m\r\n[... ${count} characters are left out here ...]\r\n`;
    return {
      write,
      cut: (count) => { dropped += count; write(said(count)); },
      clear: () => { waiting = []; size = 0; dropped = 0; term.reset(); },
      dropped: () => dropped,
      quiet: () => !drawing,
      text: () => {
        const lines = [], buffer = term.buffer.active;
        for (let at = 0; at < buffer.length; at++) {
          const line = buffer.getLine(at);
          if (line.isWrapped && lines.length) lines[lines.length - 1] += line.translateToString(true);
          else lines.push(line.translateToString(true));
        }
        return lines.join("\n").trimEnd();
      },
      term,
    };
  };
})();
