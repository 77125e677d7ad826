import type { Event, Reason } from "./frames.js";
import type { Message } from "./types.js";

/** What a model was used for. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  /** Millionths of a dollar, where the server knows the price. */
  cost_micros: number;
}

export function noUsage(): Usage {
  return {
    input_tokens: 0,
    output_tokens: 0,
    reasoning_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost_micros: 0,
  };
}

/** With its `kind`: `text`, `reasoning`, `tool`, … */
export type Content = { kind?: string; text?: string } & Record<string, unknown>;

export class HeldPart {
  /** Bytes of UTF-8 in the text; counted once, and then with each piece. */
  #bytes: number | null = null;

  constructor(
    readonly part_id: string,
    public content: Content,
    /** More of it is being said. */
    public open: boolean,
    /** The number of the event that brought it first, and its place in that. Null while it was never whole. */
    public position: readonly [number, number] | null,
  ) {}

  get text(): string {
    return typeof this.content.text === "string" ? this.content.text : "";
  }

  become(content: Content, open: boolean): void {
    this.content = content;
    this.open = open;
    this.#bytes = null;
  }

  /** More of it, if it follows what is held. The whole part tells what was missed. */
  grow(offset: number, more: string): void {
    if (typeof this.content.text !== "string") return;
    this.#bytes ??= bytesIn(this.content.text);
    if (offset !== this.#bytes) return;
    this.content = { ...this.content, text: this.content.text + more };
    this.#bytes += bytesIn(more);
    this.open = true;
  }

  toJSON(): object {
    return { part_id: this.part_id, open: this.open, content: this.content };
  }
}

export class HeldMessage {
  prompt_id: string | null = null;
  author: unknown = null;
  /** Only an `init` knows when: frames have no time. */
  created_at: string | null = null;
  /** Nothing is added to it any more. */
  done = false;
  reason: string | null = null;
  error: string | null = null;
  usage: unknown = null;
  reverted = false;
  /** It was said in the session that this one was forked from. */
  inherited = false;
  /** Whole ones in the order in which they came; then open ones, by name. */
  parts: HeldPart[] = [];

  private constructor(
    readonly id: string,
    /** The number of the event that opened it. */
    readonly position: number,
    /** `user`, `assistant` or `system`. */
    readonly role: string,
    readonly channel: string,
  ) {}

  static opened(event: Event & { type: "message" }, seq: number): HeldMessage {
    const held = new HeldMessage(event.message_id, seq, event.role ?? "assistant", event.channel);
    held.prompt_id = event.prompt_id ?? null;
    held.author = event.author ?? null;
    held.inherited = (event as { inherited?: boolean }).inherited ?? false;
    // What a person or the system says is whole at once.
    held.done = held.role !== "assistant";
    held.reason = held.done ? "end_turn" : null;
    held.parts = (event.parts ?? []).map(
      (part, place) => new HeldPart(part.part_id, part.content as Content, false, [seq, place]),
    );
    return held;
  }

  static of(message: Message): HeldMessage {
    const held = new HeldMessage(message.id, message.position, message.role, message.channel);
    held.prompt_id = message.prompt_id ?? null;
    held.author = message.author ?? null;
    held.created_at = message.created_at;
    held.done = (message.done_at ?? message.reason ?? null) !== null;
    held.reason = message.reason ?? null;
    held.error = message.error ?? null;
    held.usage = message.usage ?? null;
    held.reverted = message.reverted ?? false;
    held.inherited = (message as { inherited?: boolean }).inherited ?? false;
    // Before all that is still to come.
    held.parts = message.parts.map(
      (part, place) => new HeldPart(part.part_id, part.content as Content, false, [message.position, place]),
    );
    return held;
  }

  /** The answer: its text parts, joined. */
  get text(): string {
    return this.parts.map((part) => (part.content.kind === "text" ? part.text : "")).join("");
  }

  /** A part that is whole. */
  put(id: string, content: unknown, seq: number): void {
    const held = this.#find(id);
    if (held) {
      held.become(content as Content, false);
      held.position ??= [seq, 0];
    } else {
      this.parts.push(new HeldPart(id, content as Content, false, [seq, 0]));
    }
    this.parts.sort(byPlace);
  }

  /** A part of which more is being said, as it is now. */
  show(id: string, content: unknown): void {
    const held = this.#find(id);
    if (held) {
      held.become(content as Content, true);
    } else {
      this.#add(id, content as Content);
    }
  }

  grow(id: string, offset: number, more: string): void {
    const held = this.#find(id);
    if (held) {
      held.grow(offset, more);
    } else if (offset === 0) {
      this.#add(id, { kind: "text", text: more });
    }
  }

  remove(id: string): void {
    this.parts = this.parts.filter((held) => held.part_id !== id);
  }

  /** What was never whole was withdrawn. */
  close(reason: Reason, error: string | null, usage: unknown): void {
    this.parts = this.parts.filter((held) => held.position !== null);
    for (const held of this.parts) held.open = false;
    this.done = true;
    this.reason = reason;
    this.error = error;
    this.usage = usage;
  }

  toJSON(): object {
    const { id, position, role, channel, prompt_id, author, done, reason, error, usage, reverted, parts } = this;
    return { id, position, role, channel, prompt_id, author, done, reason, error, usage, reverted, parts };
  }

  #find(id: string): HeldPart | undefined {
    return this.parts.find((held) => held.part_id === id);
  }

  #add(id: string, content: Content): void {
    this.parts.push(new HeldPart(id, content, true, null));
    this.parts.sort(byPlace);
  }
}

function byPlace(one: HeldPart, other: HeldPart): number {
  if (one.position && other.position) {
    return one.position[0] - other.position[0] || one.position[1] - other.position[1];
  }
  if (one.position || other.position) return one.position ? -1 : 1;
  return one.part_id < other.part_id ? -1 : one.part_id > other.part_id ? 1 : 0;
}

/** In UTF-8. */
export function bytesIn(text: string): number {
  let bytes = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}
