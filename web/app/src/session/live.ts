// One session, followed: what the socket tells, and what the page keeps beside the transcript.

import type { ClientError, Command, Frame, Init, Phase, Session, Transcript, v1 } from "@nacre/client";
import { createContext, useContext, useEffect, useState, useSyncExternalStore } from "react";
import { client } from "../api";
import { type Note, sameHost, together } from "./notes";
import { Older } from "./older";
import { isAsleep, type Kept, keptOf, withPhase } from "./status";

/** Of each kind of thing that is kept for the panels. */
const MOST = 5000;

const MOST_WAITING = 20;
const MOST_BLOCKED = 500;

export interface Heard {
  frame: Frame;
  /** When it was logged; null where an older server does not say. */
  at: number | null;
}

export interface EnvRequest {
  id: string;
  keys: { key: string; required?: boolean; description?: string }[];
}

export type Line = "connecting" | "online" | "offline";

export class Live {
  version = 0;
  line: Line = "connecting";
  why = "";
  refused: ClientError | null = null;
  record: v1.Session | null = null;
  receipt: v1.Receipt | null = null;
  phases: Phase[] = [];
  /** The last start was heard from its beginning: no record knows more of it. */
  hasHeardStart = false;
  /** How it slept last: from memory it goes on, from disk it starts anew. */
  keptAs: Kept | null = null;
  /** Between messages. */
  notes: Note[] = [];
  /** The newest first, each host and port once. */
  blocked: v1.EgressBlocked[] = [];
  /** Rules that let something through: `host` or `host:port`. */
  allowed: string[] = [];
  env: EnvRequest[] = [];
  /** What the agent asked to have done outside, and waits for a person. */
  actions: v1.Action[] = [];
  /** What waits, as it was last said. */
  said = new Map<string, string>();
  /** What was sent from here and not heard of yet: without a line it waits for one. */
  unsent = new Map<string, string>();
  /** What was sent along from here: the transcript does not tell. */
  attached = new Map<string, string[]>();
  heard: Heard[] = [];
  /** Counts what may have changed files, services or ports, for the panels that show them. */
  filesVersion = 0;
  servicesVersion = 0;
  readonly session: Session;
  #older: Older | null = null;
  #isLoadingOlder = false;
  #listeners = new Set<() => void>();
  #answers = new Set<(frame: Frame) => boolean>();
  #isDue = false;
  #isClosed = false;
  #wake = () => this.session.reconnect();

  constructor(readonly id: string) {
    this.session = client.follow(id, {
      // To look at a session wakes nobody: that is for whoever says so.
      wake: false,
      onUpdate: (update) => {
        switch (update.type) {
          case "online":
            this.line = "online";
            void this.refresh();
            void this.learnEgress();
            break;
          case "offline":
            this.line = "offline";
            this.why = update.why;
            break;
          case "refused":
            this.refused = update.error;
            break;
          case "frame":
            this.#hear(update.frame);
        }
        this.#changed();
      },
    });
    addEventListener("online", this.#wake);
    document.addEventListener("visibilitychange", this.#wake);
  }

  get transcript(): Transcript {
    return this.session.transcript;
  }

  get status(): string {
    const told = this.transcript.status?.status ?? this.record?.client_status ?? "creating";
    const isNew = told === "creating" && this.record?.generation === 0 && this.phases.length === 0;
    return isNew ? "unstarted" : told;
  }

  get title(): string {
    return this.transcript.title ?? this.record?.title ?? "Session";
  }

  close(): void {
    this.#isClosed = true;
    removeEventListener("online", this.#wake);
    document.removeEventListener("visibilitychange", this.#wake);
    this.session.close();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** The record, which knows what no frame tells. */
  async refresh(): Promise<void> {
    try {
      this.#know(await client.session(this.id));
      this.#changed();
    } catch {
      // The line tells what is wrong.
    }
  }

  took(record: v1.SessionWithReceipt): void {
    this.receipt = record.receipt ?? null;
    this.#know(record);
    this.#changed();
  }

  #know(record: v1.Session): void {
    this.record = record;
    if (isAsleep(record.client_status)) this.keptAs = keptOf(record);
  }

  /** What it was refused before the page was opened, and what was let through. */
  async learnEgress(): Promise<void> {
    try {
      const { blocked, allow, once } = await client.egress(this.id);
      this.allowed = [...allow, ...once.map((pass) => pass.rule)];
      const unheard = blocked.filter((one) => !this.blocked.some((known) => sameHost(known, one)));
      for (const one of unheard) this.#addNote({ kind: "blocked", ...named(one, null), blocked: one });
      this.blocked = together(this.blocked, unheard);
      this.#changed();
    } catch {
      // An older server does not tell; of all else the line does.
    }
  }

  /** Asks the agent; now, or when there is a line again. */
  prompt(prompt: v1.NewPrompt & { id: string }): void {
    this.session.prompt(prompt);
    this.unsent.set(prompt.id, prompt.content);
    this.#changed();
  }

  /** Says it, and waits for the first frame that answers. */
  ask(command: Command, isAnswer: (frame: Frame) => boolean, patienceMs = 60_000): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#answers.delete(listener);
      };
      const listener = (frame: Frame) => {
        const isRefusal = frame.type === "error" && "frame" in frame && frame.frame === command.type;
        if (!isRefusal && !isAnswer(frame)) return false;
        end();
        if (isRefusal) reject(new Error(String((frame as { message?: unknown }).message)));
        else resolve(frame);
        return true;
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error("nothing came back in time: try again"));
      }, patienceMs);
      this.#answers.add(listener);
      try {
        this.session.send(command);
      } catch (error) {
        end();
        reject(error);
      }
    });
  }

  /** Messages from before the first that is held: some of them, for who scrolls up. */
  async loadOlder(): Promise<void> {
    const first = this.transcript.messages[0];
    if (this.#isLoadingOlder || first === undefined) return;
    this.#older ??= new Older(first.position, (after) => client.messages(this.id, { limit: 100, cursor: `${after}` }));
    if (this.#older.isDone) return;
    this.#isLoadingOlder = true;
    try {
      this.transcript.addOlder(await this.#older.next());
    } catch {
      // Whoever scrolls up again asks again.
    } finally {
      this.#isLoadingOlder = false;
      this.#changed();
    }
  }

  /** What the log tells of the time before the page was opened. */
  loadLog(): () => void {
    const known = new Set(this.heard.map((one) => seqOf(one.frame)));
    const until = this.transcript.seq;
    const since = Math.max(0, until - MOST);
    if (until === 0) return () => {};
    const url = client.http.at(["v1", "sessions", this.id, "events"], { since });
    const source = new EventSource(url);
    const past: Heard[] = [];
    source.onmessage = (event: MessageEvent<string>) => {
      const frame = JSON.parse(event.data) as Frame;
      const seq = seqOf(frame);
      if (seq !== null && seq <= until && !known.has(seq)) past.push({ frame, at: timeOf(frame) });
      if (seq === null || seq >= until) {
        source.close();
        this.heard = [...past, ...this.heard].slice(-MOST);
        this.#changed();
      }
    };
    return () => source.close();
  }

  promptEdited(id: string, content: string): void {
    this.said.set(id, content);
    this.#changed();
  }

  envGiven(id: string): void {
    this.env = this.env.filter((one) => one.id !== id);
    this.#changed();
  }

  /** Somebody decided, here or elsewhere. */
  actionDecided(id: string, status: v1.ActionStatus, message: string | null, seq: number | null, at: number): void {
    const action = this.actions.find((one) => one.id === id);
    this.actions = this.actions.filter((one) => one.id !== id);
    if (action !== undefined) {
      const what = `${action.integration} ${action.action}`;
      this.#addNote({ kind: "decided", key: `action-${id}`, seq, at, what, status, message });
    }
    this.#changed();
  }

  #hear(frame: Frame): void {
    for (const answer of this.#answers) if (answer(frame)) return;
    if (isInit(frame)) {
      this.#older = null;
      // It has no phases; what is known of them stays until the record is asked for.
      this.#know({ ...frame.session, phases: this.record?.phases ?? frame.session.phases ?? [] });
      this.actions = frame.actions ?? [];
      this.env = (frame.env_requests ?? []).map(({ id, keys }) => ({ id: String(id), keys: keysIn(keys) }));
      for (const message of frame.messages) this.unsent.delete(message.prompt_id ?? "");
      for (const prompt of frame.prompts ?? []) this.said.set(prompt.id, prompt.content);
      void this.#learnPrompts();
      return;
    }
    const seq = seqOf(frame);
    if (seq !== null) this.heard = [...this.heard.slice(-MOST + 1), { frame, at: timeOf(frame) ?? Date.now() }];
    this.#note(frame as { type: string } & Record<string, unknown>, seq ?? 0);
  }

  /** An `init` may not tell what waits; prompts without an answer are asked for by name. */
  async #learnPrompts(): Promise<void> {
    const { messages, prompts } = this.transcript;
    const answered = new Set(messages.filter((one) => one.role !== "user").map((one) => one.prompt_id));
    const open = messages
      .filter((one) => one.role === "user" && one.prompt_id !== null && !answered.has(one.prompt_id))
      .slice(-MOST_WAITING);
    for (const message of open) {
      const id = message.prompt_id;
      if (id === null || prompts.some((one) => one.id === id)) continue;
      try {
        const { content, status, reason } = await client.prompt(this.id, id);
        this.said.set(id, content);
        prompts.push({ id, status, reason: reason ?? null });
      } catch {
        // Then it is shown as it was said.
      }
    }
    this.#changed();
  }

  #note(frame: { type: string } & Record<string, unknown>, seq: number): void {
    switch (frame.type) {
      case "message":
        this.unsent.delete(String(frame["prompt_id"]));
        break;
      case "error":
        this.unsent.delete(String(frame["id"] ?? frame["prompt_id"]));
        break;
      case "status": {
        const phase = frame["phase"] as Phase | null | undefined;
        const status = frame["status"];
        const isBegun = this.phases.some((one) => one.name === "sandbox" && one.state === "started");
        if (phase?.name === "sandbox" && !isBegun) {
          this.phases = [];
          this.hasHeardStart = true;
        }
        if (phase) this.phases = withPhase(this.phases, phase);
        if (!phase || status !== this.record?.client_status) void this.refresh();
        break;
      }
      case "message.done":
        // What it cost is in the record.
        void this.refresh();
        break;
      case "files_changed":
      case "git_state":
        this.filesVersion += 1;
        break;
      case "services":
      case "ports":
        this.servicesVersion += 1;
        break;
      case "prompt":
        if (typeof frame["content"] === "string") this.said.set(String(frame["id"]), frame["content"]);
        break;
      case "model_switched": {
        const { from, to, reason } = frame as unknown as { from: string; to: string; reason: string };
        this.#addNote({ kind: "switch", key: `switch-${seq}`, seq, at: Date.now(), from, to, reason });
        break;
      }
      case "env_request":
        this.env = [...this.env, { id: String(frame["id"]), keys: keysIn(frame["keys"]) }];
        break;
      case "env_answered":
        this.env = this.env.filter((one) => one.id !== frame["id"]);
        break;
      case "action_approval_request": {
        const action = frame as unknown as v1.Action;
        this.actions = [...this.actions.filter((one) => one.id !== action.id), action];
        break;
      }
      case "action_approval_result": {
        const message = typeof frame["message"] === "string" ? frame["message"] : null;
        const status = frame["status"] as v1.ActionStatus;
        this.actionDecided(String(frame["id"]), status, message, seq, Date.now());
        break;
      }
      case "egress_blocked":
        this.#noteBlocked(frame as unknown as v1.EgressBlocked, seq);
        break;
      case "egress_allowed":
        this.allowed = [...this.allowed, String(frame["rule"])];
        break;
      default:
    }
  }

  #noteBlocked(blocked: v1.EgressBlocked, seq: number): void {
    if (typeof blocked.host !== "string" || typeof blocked.port !== "number") return;
    const isNew = !this.blocked.some((one) => sameHost(one, blocked));
    this.blocked = together([blocked], this.blocked).slice(0, MOST_BLOCKED);
    if (isNew) this.#addNote({ kind: "blocked", ...named(blocked, seq), blocked });
  }

  #addNote(note: Note): void {
    this.notes = [...this.notes.filter((one) => one.key !== note.key), note];
  }

  /** However many frames come, the page is drawn once for each frame of the screen. */
  #changed(): void {
    if (this.#isDue || this.#isClosed) return;
    this.#isDue = true;
    const draw = () => {
      this.#isDue = false;
      this.version += 1;
      for (const listener of this.#listeners) listener();
    };
    if (document.hidden) setTimeout(draw, 200);
    else requestAnimationFrame(draw);
  }
}

function isInit(frame: Frame): frame is Init {
  return frame.type === "init";
}

function seqOf(frame: Frame): number | null {
  const seq = (frame as { seq?: unknown }).seq;
  return frame.type !== "init" && typeof seq === "number" ? seq : null;
}

function timeOf(frame: Frame): number | null {
  const at = Date.parse(String((frame as { at?: unknown }).at));
  return Number.isNaN(at) ? null : at;
}

function named(blocked: v1.EgressBlocked, seq: number | null): { key: string; seq: number | null; at: number } {
  return { key: `blocked-${blocked.host}:${blocked.port}`, seq, at: Date.parse(blocked.at) };
}

function keysIn(keys: unknown): EnvRequest["keys"] {
  if (!Array.isArray(keys)) return [];
  return keys
    .map((key) => (typeof key === "string" ? { key } : (key as EnvRequest["keys"][number])))
    .filter((key) => typeof key?.key === "string");
}

export function useFollowed(id: string): Live | null {
  const [live, setLive] = useState<Live | null>(null);
  useEffect(() => {
    const next = new Live(id);
    setLive(next);
    return () => next.close();
  }, [id]);
  return live?.id === id ? live : null;
}

export const LiveContext = createContext<Live | null>(null);

/** The session of this page; drawn again whenever anything of it changes. */
export function useLive(): Live {
  const live = useContext(LiveContext);
  if (live === null) throw new Error("there is no session around this");
  useSyncExternalStore(live.subscribe, () => live.version);
  return live;
}
