/* Browsers refuse workers to a page that was opened as a file, and the search is one. Its script then runs in a
 * hidden frame of the page. zensical knows by the name of this file that it need not load another from the network. */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.waiting = []; // messages from before the script has been loaded
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (message) => {
        const data = structuredClone(message);
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      };
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        const messages = this.waiting;
        this.waiting = null;
        messages.forEach((message) => this.postMessage(message));
      };
      script.onerror = (error) => this.onerror?.(error);
      inside.document.documentElement.append(script);
    }

    postMessage(message) {
      const data = structuredClone(message);
      if (this.waiting) {
        this.waiting.push(data);
        return;
      }
      const inside = this.frame.contentWindow;
      setTimeout(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
