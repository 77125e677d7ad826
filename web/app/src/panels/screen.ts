// A terminal on the page, joined with one in the sandbox. It comes back by itself after a break.

import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

export interface Screen {
  focus: () => void;
  dispose: () => void;
}

export type ScreenState = "connecting" | "open" | "lost" | "ended";

const WAITS_MS = [300, 1000, 2000, 5000];

export function openScreen(
  element: HTMLElement,
  address: (columns: number, rows: number) => string,
  onState: (state: ScreenState, code: number | null) => void,
): Screen {
  const terminal = new Terminal({
    fontFamily: styleOf("--mono"),
    fontSize: 13,
    lineHeight: 1.2,
    cursorBlink: true,
    scrollback: 10_000,
    screenReaderMode: false,
    theme: colours(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  withoutInlineStyles(() => terminal.open(element));
  fit.fit();

  let socket: WebSocket | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let tries = 0;
  let isOver = false;

  const connect = () => {
    onState("connecting", null);
    const next = new WebSocket(address(terminal.cols, terminal.rows));
    next.binaryType = "arraybuffer";
    socket = next;
    next.onopen = () => {
      onState("open", null);
      resize();
    };
    next.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
      tries = 0;
      if (typeof event.data !== "string") {
        terminal.write(new Uint8Array(event.data));
        return;
      }
      const said = JSON.parse(event.data) as { type?: string; code?: number };
      if (said.type === "exit") {
        isOver = true;
        onState("ended", said.code ?? null);
      }
    };
    next.onclose = () => {
      if (isOver || socket !== next) return;
      onState("lost", null);
      const wait = WAITS_MS[Math.min(tries, WAITS_MS.length - 1)] ?? 5000;
      tries += 1;
      timer = setTimeout(connect, wait);
    };
  };
  const say = (words: object) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(words));
  };
  const resize = () => say({ type: "resize", columns: terminal.cols, rows: terminal.rows });
  const encoder = new TextEncoder();
  terminal.onData((keys) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(encoder.encode(keys));
  });
  terminal.onBinary((keys) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(Uint8Array.from(keys, (key) => key.charCodeAt(0)));
  });
  terminal.onResize(resize);
  const observer = new ResizeObserver(() => {
    if (element.clientWidth > 0) fit.fit();
  });
  observer.observe(element);
  const recolour = () => {
    terminal.options.theme = colours();
  };
  const scheme = new MutationObserver(recolour);
  scheme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", recolour);
  connect();

  return {
    focus: () => terminal.focus(),
    dispose: () => {
      isOver = true;
      clearTimeout(timer);
      observer.disconnect();
      scheme.disconnect();
      preferred.removeEventListener("change", recolour);
      socket?.close();
      terminal.dispose();
    },
  };
}

/**
 * The page's policy allows no style that is written into it, and the library writes some when it opens.
 * They become sheets of their own, which the policy leaves to scripts.
 */
function withoutInlineStyles(open: () => void): void {
  const create = document.createElement.bind(document);
  document.createElement = ((tag: string) => (tag === "style" ? sheet() : create(tag))) as typeof create;
  try {
    open();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** An element that shows nothing; what is written into it counts for the page. */
function sheet(): HTMLElement {
  const element = document.createElementNS("http://www.w3.org/1999/xhtml", "template") as HTMLElement;
  const made = new CSSStyleSheet();
  document.adoptedStyleSheets.push(made);
  Object.defineProperty(element, "textContent", { set: (text: string) => made.replaceSync(text) });
  const remove = element.remove.bind(element);
  element.remove = () => {
    remove();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== made);
  };
  return element;
}

function styleOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The browser resolves `light-dark()` for properties alone, so it is asked by one. */
function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function colours(): ITheme {
  return {
    background: colour("--sunk"),
    foreground: colour("--ink"),
    cursor: colour("--accent"),
    cursorAccent: colour("--sunk"),
    selectionBackground: colour("--chosen"),
    black: colour("--ink"),
    red: colour("--bad"),
    green: colour("--good"),
    yellow: colour("--warn"),
    blue: colour("--info"),
    magenta: colour("--code-keyword"),
    cyan: colour("--code-name"),
    white: colour("--ink-soft"),
    brightBlack: colour("--ink-faint"),
    brightRed: colour("--bad"),
    brightGreen: colour("--good"),
    brightYellow: colour("--warn"),
    brightBlue: colour("--info"),
    brightMagenta: colour("--code-keyword"),
    brightCyan: colour("--code-name"),
    brightWhite: colour("--ink"),
  };
}
