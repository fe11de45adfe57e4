// A browser starts no worker for a page that it opened from a file. Then the search of the site
// runs in a hidden frame, behind the same interface.
if (location.protocol === "file:") {
  const prelude = `
    self.postMessage = (data) => parent.postMessage(data, "*");
    self.importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
      new Promise((resolve) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = resolve;
        document.body.append(script);
      })), Promise.resolve());`;

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      const page = this.frame.contentDocument;
      page.open();
      page.write(`<body><script>${prelude}</script><script src="${url}"></script></body>`);
      page.close();
      this.loaded = new Promise((resolve) => {
        this.frame.contentWindow.onload = resolve;
      });
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
    }

    postMessage(data) {
      this.loaded.then(() => {
        const message = new MessageEvent("message", { data: structuredClone(data) });
        this.frame.contentWindow.dispatchEvent(message);
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
