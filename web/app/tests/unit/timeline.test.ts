import type { Frame } from "@nacre/client";
import { describe, expect, it } from "vitest";
import { stretchesOf } from "../../src/panels/timeline";

const at = (ms: number, frame: object) => ({ frame: frame as Frame, at: ms });
const phase = (ms: number, name: string, state: string, more: object = {}) =>
  at(ms, { type: "status", status: "creating", phase: { name, state, ...more } });
const user = (ms: number, text: string) =>
  at(ms, {
    type: "message",
    role: "user",
    message_id: `u${ms}`,
    prompt_id: "p",
    parts: [{ content: { kind: "text", text } }],
  });
const tool = (ms: number, part: string, status: string, more: object = {}) =>
  at(ms, {
    type: "part",
    message_id: "m",
    part_id: part,
    content: { kind: "tool", name: "bash", status, args: { command: "make" }, ...more },
  });

describe("a time line", () => {
  it("has each start and each turn as a stretch of its own", () => {
    const told = stretchesOf([
      user(0, "build it"),
      phase(10, "sandbox", "done", { took_ms: 10 }),
      phase(40, "agent", "done", { took_ms: 30 }),
      at(41, { type: "status", status: "running" }),
      at(110, { type: "message", message_id: "m", prompt_id: "p" }),
      phase(115, "services", "started"),
      phase(118, "services", "done", { took_ms: 3 }),
      tool(120, "p1", "running"),
      tool(420, "p1", "completed", { exit_code: 2 }),
      at(500, { type: "message.done", message_id: "m", reason: "end_turn" }),
    ]);
    expect(told.map((stretch) => [stretch.title, stretch.from, stretch.to])).toEqual([
      ["Start", 0, 118],
      ["build it", 110, 500],
    ]);
    const [answer, bash] = told[1]?.happenings ?? [];
    expect([answer?.what, answer?.from, answer?.to]).toEqual(["Answer", 110, 500]);
    expect([bash?.what, bash?.detail, bash?.from, bash?.to, bash?.tone]).toEqual([
      "bash",
      "make · exit 2",
      120,
      420,
      "bad",
    ]);
  });

  it("says no word of a program", () => {
    const told = stretchesOf([
      user(0, "go"),
      at(1, { type: "prompt", id: "p", status: "accepted" }),
      at(2, { type: "message", message_id: "m", prompt_id: "p" }),
      at(3, { type: "something_new", deep: { x: 1 } }),
      at(4, { type: "message.done", message_id: "m", reason: "end_turn" }),
    ]);
    expect(JSON.stringify(told)).not.toMatch(/end_turn|accepted|something/);
  });

  it("does not count what comes long after a turn as part of it", () => {
    const told = stretchesOf([
      user(0, "go"),
      at(2, { type: "message", message_id: "m", prompt_id: "p" }),
      at(4, { type: "message.done", message_id: "m", reason: "canceled" }),
      at(60_000, { type: "egress_blocked", host: "a.example", port: 443 }),
    ]);
    expect(told.map((stretch) => stretch.title)).toEqual(["go", "Meanwhile"]);
    expect(told[0]?.happenings[0]?.what).toBe("Cancelled");
  });
});
