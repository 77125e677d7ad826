// A session's socket that heals: every numbered frame once and in order.

import { ClientError } from "./error.js";
import type { Answer, Command, Frame } from "./frames.js";
import { numberOf, readFrame } from "./frames.js";
import type { Client } from "./client.js";
import { newPromptId } from "./client.js";
import { Line, MOST_WAITING, Outbox } from "./line.js";
import { Transcript } from "./transcript.js";
import type { NewPrompt } from "./types.js";

/** As much of a WebSocket as is needed: the browser's, Node's, or that of `ws`. */
export interface SocketLike {
  send(text: string): void;
  close(code?: number): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
}

export type SocketFactory = (url: string, headers: Record<string, string>) => SocketLike;

export type Update =
  /** Connected; frames follow. */
  | { type: "online" }
  | { type: "frame"; frame: Frame }
  /** The line is lost, and is tried again by itself. */
  | { type: "offline"; why: string; againInMs: number }
  /** It would not help to try again. Nothing follows. */
  | { type: "refused"; error: ClientError };

export interface Pace {
  /** A line that is silent for so long is asked whether it lives. */
  pingAfterMs: number;
  /** And is given up when it is silent for so long. */
  deadAfterMs: number;
  /** A line that does not open within this is given up. */
  openWithinMs: number;
  /** Between tries; the last one over and over. */
  waitsMs: readonly number[];
}

const PACE: Pace = {
  pingAfterMs: 15_000,
  deadAfterMs: 35_000,
  openWithinMs: 15_000,
  waitsMs: [0, 1000, 2000, 5000, 10_000, 30_000],
};

/** Who just woke up wants to know soon whether the line is still there. */
const NUDGED_MS = 5000;

export interface SessionOptions {
  /** The number of the last frame that is known. Without it, an `init` comes first. */
  since?: number;
  /** False: a paused session stays so. */
  wake?: boolean;
  /** Called after the frame is in `transcript`. */
  onUpdate?: (update: Update) => void;
  pace?: Partial<Pace>;
  webSocket?: SocketFactory;
  ticket?: () => Promise<string>;
}

export class Session {
  readonly transcript = new Transcript();
  readonly #client: Client;
  readonly #options: SessionOptions;
  readonly #pace: Pace;
  readonly #line: Line;
  readonly #outbox = new Outbox();
  #socket: SocketLike | null = null;
  #isOpen = false;
  #isClosed = false;
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Client, readonly id: string, options: SessionOptions = {}) {
    this.#client = client;
    this.#options = options;
    this.#pace = { ...PACE, ...options.pace };
    this.#line = new Line(options.since ?? null);
    if (options.since !== undefined) this.transcript.seq = options.since;
    void this.#connect();
  }

  get isOnline(): boolean {
    return this.#isOpen;
  }

  /** Its id. It is kept while there is no connection, and sent again until the session tells of it. */
  prompt(prompt: NewPrompt): string {
    const id = prompt.id ?? newPromptId();
    this.send({ type: "prompt", ...prompt, id });
    return id;
  }

  answer(question: string, answer?: Answer, item = 0): void {
    this.send({ type: "answer", question_id: question, item, ...(answer === undefined ? {} : { answer }) });
  }

  permit(permission: string, allow: boolean): void {
    this.send({ type: "permission", id: permission, allow });
  }

  cancel(channel?: string): void {
    this.send(channel === undefined ? { type: "cancel" } : { type: "cancel", channel });
  }

  pause(): void {
    this.send({ type: "pause" });
  }

  /** What has no name of its own is said now, or throws a `ClientError` of kind `not_connected`. */
  send(command: Command): void {
    if (this.#isClosed) throw new ClientError("ended", "the session is not followed any more");
    const isKept = this.#outbox.keep(command);
    if (isKept === null) throw new ClientError("full", `${MOST_WAITING} commands wait for a connection already`);
    if (this.#socket !== null && this.#isOpen) {
      this.#socket.send(JSON.stringify(command));
    } else if (!isKept) {
      throw new ClientError("not_connected", "there is no connection, and this command is not kept for later");
    }
  }

  /** Does not wait for the next try: the machine woke up, or the network came back. */
  reconnect(): void {
    if (this.#isClosed) return;
    if (this.#isOpen) {
      this.#say({ type: "ping" });
      this.#after(Math.min(NUDGED_MS, this.#pace.deadAfterMs), () => this.#lost("the line is silent"));
    } else if (this.#socket === null) {
      void this.#connect();
    }
  }

  /** Nothing is told after this. */
  close(): void {
    this.#isClosed = true;
    this.#drop();
  }

  async #connect(): Promise<void> {
    clearTimeout(this.#timer);
    const token = (this.#attempt = {});
    let socket: SocketLike;
    try {
      const url = await this.#url();
      if (this.#isClosed || this.#attempt !== token) return;
      socket = (this.#options.webSocket ?? globalSocket)(url, this.#client.http.headers());
    } catch (error) {
      return this.#lost(error instanceof Error ? error.message : "no socket could be made");
    }
    this.#socket = socket;
    const ifCurrent = (act: (event: never) => void) => (event: never) => {
      if (this.#socket === socket) act(event);
    };
    this.#after(this.#pace.openWithinMs, () => this.#lost("nothing answered"));
    socket.onopen = ifCurrent(() => this.#opened());
    socket.onmessage = ifCurrent((event: { data: unknown }) => this.#heard(event.data));
    socket.onclose = ifCurrent(() => void this.#hungUp());
    // A close follows; without a listener some libraries throw.
    socket.onerror = () => {};
  }

  #attempt: object = {};

  async #url(): Promise<string> {
    const query: Record<string, string | number | undefined> = {
      since: this.#line.last ?? undefined,
      resume: this.#options.wake === false ? "false" : undefined,
      ticket: await this.#options.ticket?.(),
    };
    const url = this.#client.http.at(["v1", "sessions", this.id, "connect"], query);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url.href;
  }

  #opened(): void {
    this.#isOpen = true;
    this.#tell({ type: "online" });
    for (const command of this.#outbox.waiting) this.#say(command);
    this.#listen();
  }

  /** For a sign of life; asks for one in time. */
  #listen(): void {
    const { pingAfterMs, deadAfterMs } = this.#pace;
    this.#after(pingAfterMs, () => {
      this.#say({ type: "ping" });
      this.#after(Math.max(deadAfterMs - pingAfterMs, 0), () => this.#lost("the line is silent"));
    });
  }

  #heard(data: unknown): void {
    this.#listen();
    const frame = typeof data === "string" ? readFrame(data) : null;
    if (frame === null) return this.#lost("the server said something that is no frame");
    const next = this.#line.hear(frame);
    if (next === "gap") return this.#lost("a frame is missing");
    // Said again, it may still be news of what we said.
    this.#outbox.settle(frame);
    if (next === "leave") return;
    if (numberOf(frame) !== null) this.#tries = 0;
    this.transcript.apply(frame);
    this.#tell({ type: "frame", frame });
  }

  async #hungUp(): Promise<void> {
    if (this.#isOpen) return this.#lost("the server hung up");
    // A browser does not say why a socket was refused: the session's own route does.
    const socket = this.#socket;
    clearTimeout(this.#timer);
    try {
      await this.#client.session(this.id);
    } catch (error) {
      if (this.#socket !== socket || this.#isClosed) return;
      if (error instanceof ClientError && error.kind === "refused" && !error.canRetry) {
        this.close();
        this.#options.onUpdate?.({ type: "refused", error });
        return;
      }
    }
    if (this.#socket === socket) this.#lost("the server did not take the connection");
  }

  #lost(why: string): void {
    if (this.#isClosed) return;
    this.#drop();
    const { waitsMs } = this.#pace;
    const wait = waitsMs[Math.min(this.#tries, waitsMs.length - 1)] ?? 1000;
    this.#tries += 1;
    // Not all clients come back at once.
    const againInMs = wait * (0.75 + Math.random() / 2);
    this.#after(againInMs, () => void this.#connect());
    this.#tell({ type: "offline", why, againInMs });
  }

  #drop(): void {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    this.#isOpen = false;
    this.#attempt = {};
    try {
      socket?.close();
    } catch {
      // It was never open.
    }
  }

  #say(command: Command): void {
    try {
      this.#socket?.send(JSON.stringify(command));
    } catch {
      // Its close tells.
    }
  }

  #tell(update: Update): void {
    if (!this.#isClosed) this.#options.onUpdate?.(update);
  }

  #after(ms: number, act: () => void): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(act, ms);
  }
}

/** A browser lets in by its cookie; Node's own WebSocket takes headers beside it. */
function globalSocket(url: string, headers: Record<string, string>): SocketLike {
  const Socket = (globalThis as { WebSocket?: new (url: string, options?: object) => SocketLike }).WebSocket;
  if (Socket === undefined) {
    throw new TypeError("there is no WebSocket here; give one: { webSocket: (url, headers) => new WebSocket(url, { headers }) }");
  }
  const isBrowser = "document" in globalThis || "importScripts" in globalThis;
  return isBrowser ? new Socket(url) : new Socket(url, { headers });
}
