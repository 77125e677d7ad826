// The past of a conversation, a little at a time, from now backwards.

import type { v1 } from "@nacre/client";

export interface MessagePage {
  items: v1.Message[];
  next_cursor?: string | null;
}

/** Fewer than this are asked for in a wider span the next time, more than twice as many in a narrower one. */
const ENOUGH = 40;

/**
 * A page leads forward from a number of the log, and most numbers are not of messages. So a span of numbers
 * is asked for that grows until it has enough of them: each message is fetched once.
 */
export class Older {
  #span = 400;
  /** All from here on are held. */
  #from: number;
  readonly #page: (after: number) => Promise<MessagePage>;

  constructor(from: number, page: (after: number) => Promise<MessagePage>) {
    this.#from = from;
    this.#page = page;
  }

  get isDone(): boolean {
    return this.#from <= 1;
  }

  async next(): Promise<v1.Message[]> {
    const found: v1.Message[] = [];
    while (found.length < ENOUGH && !this.isDone) {
      const start = Math.max(0, this.#from - 1 - this.#span);
      found.push(...(await this.#between(start, this.#from)));
      this.#from = start + 1;
      if (found.length < ENOUGH) this.#span *= 2;
      else if (found.length > 2 * ENOUGH) this.#span = Math.ceil(this.#span / 2);
    }
    return found;
  }

  async #between(after: number, before: number): Promise<v1.Message[]> {
    const found: v1.Message[] = [];
    for (;;) {
      const page = await this.#page(after);
      found.push(...page.items.filter((message) => message.position < before));
      const last = Number(page.next_cursor ?? Number.NaN);
      if (!(last > after) || last >= before - 1) return found;
      after = last;
    }
  }
}
