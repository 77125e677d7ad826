// A session as its frames tell it: what people see. The same as `Transcript` of the Rust client;
// `crates/client/tests/vectors` holds both to it.

import type { AgentStatus, Asked, ClientStatus, Event, Frame, Init, Phase, PromptStatus, Watcher } from "./frames.js";
import { isInitFrame, numberOf } from "./frames.js";
import { HeldMessage, noUsage, type Usage } from "./message.js";
import type { Message, Session } from "./types.js";

/** Prompts that are over are remembered for as long as this many others. */
const PROMPTS = 256;

export interface Standing {
  status: ClientStatus;
  message: string | null;
  /** The last step of a start that was told of. */
  phase: Phase | null;
}

export interface HeldPrompt {
  id: string;
  status: PromptStatus;
  reason: string | null;
}

export interface AgentState {
  status: AgentStatus;
  detail: string | null;
}

export class Transcript {
  /** The number of the last frame in it. */
  seq = 0;
  /** Counts changes, for whoever draws. */
  version = 0;
  /** As the last `init` told it. What changes is beside it. */
  session: Session | null = null;
  title: string | null = null;
  status: Standing | null = null;
  /** In the order in which they were opened. */
  messages: HeldMessage[] = [];
  /** In the order in which they were first heard of. */
  prompts: HeldPrompt[] = [];
  /** The events that asked, and wait for a person. */
  questions: Asked[] = [];
  /** By channel; of the whole workplace under the empty name. */
  agents: Record<string, AgentState> = {};
  watchers: Watcher[] = [];
  preview_url: string | null = null;

  /** Frames as a `Session` gives them. One that is in it already changes nothing. */
  apply(frame: Frame): void {
    if (isInitFrame(frame)) {
      this.#begin(frame);
    } else {
      const seq = numberOf(frame);
      if (seq === null) {
        this.#overhear(frame as Event);
      } else {
        if (seq <= this.seq) return;
        this.seq = seq;
        this.#hear(frame as Event, seq);
      }
    }
    this.version += 1;
  }

  message(id: string): HeldMessage | undefined {
    return this.messages.findLast((held) => held.id === id);
  }

  /** What the messages that are held cost, together. */
  usage(): Usage {
    const sum = noUsage();
    for (const held of this.messages) {
      const usage = held.usage as Partial<Usage> | null;
      for (const key of Object.keys(sum) as (keyof Usage)[]) {
        const count = usage?.[key];
        if (typeof count === "number") sum[key] += count;
      }
    }
    return sum;
  }

  /** Messages before those that an `init` brought. */
  addOlder(older: Message[]): void {
    const first = this.messages[0]?.position ?? Infinity;
    const byId = new Map<string, HeldMessage>();
    for (const one of older) {
      if (one.position < first && !byId.has(one.id)) byId.set(one.id, HeldMessage.of(one));
    }
    const held = [...byId.values()].sort((one, other) => one.position - other.position);
    this.messages = [...held, ...this.messages];
    this.version += 1;
  }

  toJSON(): object {
    const { seq, title, status, messages, prompts, questions, agents, watchers, preview_url } = this;
    return { seq, title, status, messages, prompts, questions, agents, watchers, preview_url };
  }

  #begin(init: Init): void {
    this.seq = init.seq;
    this.session = init.session;
    this.title = init.session.title;
    this.status = { status: init.session.client_status, message: init.session.error ?? null, phase: null };
    this.messages = init.messages.map((message) => HeldMessage.of(message));
    this.messages.sort((one, other) => one.position - other.position);
    this.prompts = (init.prompts ?? []).map(({ id, status, reason }) => ({ id, status, reason: reason ?? null }));
    this.questions = (init.questions ?? []).map(withoutNumber);
    this.agents = {};
    this.preview_url = init.runtime?.preview_url ?? null;
  }

  #hear(event: Event, seq: number): void {
    switch (event.type) {
      case "title":
        if (typeof event.title === "string") this.title = event.title;
        return;
      case "message":
        if (typeof event.message_id !== "string" || this.message(event.message_id)) return;
        this.messages.push(HeldMessage.opened(event, seq));
        return;
      case "part":
        if (event.open !== true) this.#open(event.message_id)?.put(event.part_id, event.content, seq);
        return;
      case "part.removed":
        this.#open(event.message_id)?.remove(event.part_id);
        return;
      case "message.removed":
        this.messages = this.messages.filter((held) => held.id !== event.message_id);
        return;
      case "message.done":
        this.#open(event.message_id)?.close(event.reason, event.error ?? null, event.usage ?? null);
        return;
      case "reverted":
        for (const held of this.messages) {
          if (event.message_ids?.includes(held.id)) held.reverted = true;
        }
        return;
      case "prompt":
        this.#promptIs({ id: event.id, status: event.status, reason: event.reason ?? null });
        return;
      case "question":
      case "permission":
        this.questions.push(withoutNumber(event));
        return;
      case "question_closed":
        this.questions = this.questions.filter(
          (asked) => asked.type !== "question" || asked.question_id !== event.question_id,
        );
        return;
      case "permission_closed":
        this.questions = this.questions.filter((asked) => asked.type !== "permission" || asked.id !== event.id);
        return;
      case "agent_status":
        this.agents[event.channel ?? ""] = { status: event.status, detail: event.detail ?? null };
        return;
      case "preview_url":
        this.preview_url = event.url ?? null;
        return;
      default:
        this.#overhear(event);
    }
  }

  /** What may be said in passing. */
  #overhear(event: Event): void {
    switch (event.type) {
      // Without a number it answers `get_status`.
      case "status":
        if (typeof event.status !== "string") return;
        this.status = { status: event.status, message: event.message ?? null, phase: event.phase ?? null };
        return;
      case "presence":
        if (Array.isArray(event.watchers)) this.watchers = event.watchers;
        return;
      case "part":
        if (event.open === true) this.#open(event.message_id)?.show(event.part_id, event.content);
        return;
      case "part.delta":
        this.#open(event.message_id)?.grow(event.part_id, event.offset, event.text);
        return;
      default:
    }
  }

  /** A message that is not done. */
  #open(id: string): HeldMessage | undefined {
    const held = this.message(id);
    return held?.done ? undefined : held;
  }

  #promptIs(prompt: HeldPrompt): void {
    const at = this.prompts.findIndex((known) => known.id === prompt.id);
    if (at >= 0) {
      this.prompts[at] = prompt;
      return;
    }
    if (this.prompts.length >= PROMPTS) {
      const over = this.prompts.findIndex((old) => isOver(old.status));
      if (over >= 0) this.prompts.splice(over, 1);
    }
    this.prompts.push(prompt);
  }
}

export function isOver(status: PromptStatus): boolean {
  return status === "finished" || status === "failed" || status === "interrupted";
}

function withoutNumber(event: Asked & { seq?: number }): Asked {
  const { seq: _, ...asked } = event;
  return asked as Asked;
}
