import type { v1 } from "@nacre/client";
import { describe, expect, it } from "vitest";
import { Older } from "../../src/session/older";

/** As the server does: pages of a hundred, forward from a number of the log. */
function log(positions: number[]) {
  const fetched: number[] = [];
  const page = async (after: number) => {
    const found = positions.filter((position) => position > after).slice(0, 100);
    fetched.push(...found);
    const last = found.at(-1);
    return {
      items: found.map((position) => ({ id: `m${position}`, position }) as v1.Message),
      next_cursor: last === undefined ? null : String(last),
    };
  };
  return { page, fetched };
}

async function all(older: Older): Promise<number[]> {
  const found: number[] = [];
  while (!older.isDone) found.unshift(...(await older.next()).map((message) => message.position));
  return found;
}

describe("the past of a conversation", () => {
  it("comes a little at a time, each message once, and whole", async () => {
    const positions = Array.from({ length: 10_000 }, (_, at) => at * 7 + 1);
    const { page, fetched } = log(positions);
    const older = new Older(positions.at(-1) ?? 0, page);
    const first = await older.next();
    expect(first.length).toBeGreaterThan(30);
    expect(first.length).toBeLessThan(300);
    const rest = await all(older);
    expect([...rest, ...first.map((one) => one.position)]).toEqual(positions.slice(0, -1));
    // A page may reach a little into what is held.
    expect(fetched.length).toBeLessThan(positions.length * 2.5);
  });

  it("is found though messages are far apart, or there are none", async () => {
    const { page } = log([3, 90_000]);
    expect(await all(new Older(90_000, page))).toEqual([3]);
    expect(await all(new Older(1, page))).toEqual([]);
  });
});
