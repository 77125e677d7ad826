import type { Command, Frame } from "./frames.js";
import { isInitFrame, numberOf } from "./frames.js";

/** So often a server may leave out the same frame before everything is asked for anew. */
const SAME_GAP = 3;
/** So many commands wait for a connection. */
export const MOST_WAITING = 64;

/** Where in the log a session is. */
export class Line {
  #gaps = 0;

  /** The number of the last frame that was given on. Null: only an `init` can be next. */
  constructor(public last: number | null) {}

  /** Whether to give it on, leave it, or ask again for what is missing before it. */
  hear(frame: Frame): "give" | "leave" | "gap" {
    if (isInitFrame(frame)) {
      this.last = frame.seq;
      this.#gaps = 0;
      return "give";
    }
    const seq = numberOf(frame);
    if (seq === null) return frame.type === "pong" || this.last === null ? "leave" : "give";
    if (this.last !== null && seq <= this.last) return "leave";
    if (this.last !== null && seq === this.last + 1) {
      this.last = seq;
      this.#gaps = 0;
      return "give";
    }
    this.#gaps += 1;
    if (this.#gaps >= SAME_GAP) {
      this.last = null;
      this.#gaps = 0;
    }
    return "gap";
  }
}

/** Commands with names, which may be said twice and mean one thing. Kept until the session tells of them. */
export class Outbox {
  waiting: Command[] = [];

  /** False: it is to be said now or not at all. Null: too many wait. */
  keep(command: Command): boolean | null {
    const name = nameOf(command);
    if (name === null) return false;
    const others = this.waiting.filter((waiting) => nameOf(waiting) !== name);
    if (others.length >= MOST_WAITING) return null;
    this.waiting = [...others, command];
    return true;
  }

  settle(frame: Frame): void {
    if (this.waiting.length > 0) this.waiting = this.waiting.filter((waiting) => !isSettled(waiting, frame));
  }
}

function nameOf(command: Command): string | null {
  switch (command.type) {
    case "prompt":
      return command.id == null ? null : `prompt ${command.id}`;
    case "answer":
      return `answer ${command.item ?? 0} ${command.question_id}`;
    case "permission":
      return `permission ${command.id}`;
    default:
      return null;
  }
}

function isSettled(waiting: Command, frame: Frame): boolean {
  const told = frame as Record<string, unknown> & { type: string };
  switch (waiting.type) {
    case "prompt":
      if (isInitFrame(frame)) return frame.messages.some((message) => message.prompt_id === waiting.id);
      return (
        (told.type === "prompt" && told["id"] === waiting.id) ||
        (told.type === "error" && told["prompt_id"] === waiting.id) ||
        isRefused(told, "prompt", waiting.id)
      );
    case "answer":
      if (isInitFrame(frame)) {
        return !frame.questions?.some((asked) => asked.type === "question" && asked.question_id === waiting.question_id);
      }
      return (
        (told.type === "question_closed" && told["question_id"] === waiting.question_id) ||
        // An answer is not named there.
        isRefused(told, "answer", undefined)
      );
    case "permission":
      if (isInitFrame(frame)) {
        return !frame.questions?.some((asked) => asked.type === "permission" && asked.id === waiting.id);
      }
      return (
        (told.type === "permission_closed" && told["id"] === waiting.id) ||
        isRefused(told, "permission", waiting.id)
      );
    default:
      return true;
  }
}

/** What the server will not do is not insisted on. It says of what it speaks by `frame` and `id`. */
function isRefused(told: Record<string, unknown>, kind: string, id: string | null | undefined): boolean {
  return told["type"] === "error" && told["frame"] === kind && told["id"] === id;
}
