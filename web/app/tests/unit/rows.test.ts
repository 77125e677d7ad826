import { type Frame, type HeldMessage, Transcript } from "@nacre/client";
import { describe, expect, it } from "vitest";
import type { Note } from "../../src/session/notes";
import { inTurns, rowsOf } from "../../src/session/rows";

function told(...frames: object[]): Transcript {
  const transcript = new Transcript();
  frames.forEach((frame, at) => {
    transcript.apply({ seq: at + 1, ...frame } as Frame);
  });
  return transcript;
}

const user = (id: string, text: string) => ({
  type: "message",
  message_id: `usr-${id}`,
  prompt_id: id,
  role: "user",
  channel: "web:default",
  parts: [{ part_id: "text", content: { kind: "text", text } }],
});
const answer = (id: string, prompt: string) => ({
  type: "message",
  message_id: id,
  prompt_id: prompt,
  channel: "web:default",
});
const text = (message: string, part: string, text: string, more: object = {}) => ({
  type: "part",
  message_id: message,
  part_id: part,
  content: { kind: "text", text },
  ...more,
});
const tool = (message: string, part: string) => ({
  type: "part",
  message_id: message,
  part_id: part,
  content: { kind: "tool", name: "bash", status: "completed", call_id: "c", args: {} },
});
const part = (ms: number, rest = 0) => `prt_${String(ms).padStart(10, "0")}${String(rest).padStart(16, "0")}`;

describe("rows of a conversation", () => {
  it("puts an answer after what it answers, though another prompt waits between them", () => {
    const transcript = told(user("one", "first"), user("two", "second"), answer("msg1", "one"), answer("msg2", "two"));
    const order = inTurns(transcript.messages).map((message: HeldMessage) => message.id);
    expect(order).toEqual(["usr-one", "msg1", "usr-two", "msg2"]);
  });

  it("shows words before the tool that they led to, though the log has them after it", () => {
    const transcript = told(answer("msg", "p"), tool("msg", part(2)), text("msg", part(1), "I look."));
    const kinds = rowsOf(transcript).map((row) => (row.kind === "part" ? row.content.kind : row.kind));
    expect(kinds).toEqual(["text", "tool"]);
  });

  it("shows words before a tool of the same moment", () => {
    const transcript = told(answer("msg", "p"), tool("msg", part(7, 1)), text("msg", part(7, 2), "I look."));
    const kinds = rowsOf(transcript).map((row) => (row.kind === "part" ? row.content.kind : row.kind));
    expect(kinds).toEqual(["text", "tool"]);
  });

  it("does not move a part when it becomes whole", () => {
    const transcript = told(answer("msg", "p"));
    transcript.apply({
      type: "part",
      message_id: "msg",
      part_id: part(1),
      open: true,
      content: { kind: "text", text: "I l" },
    });
    transcript.apply({ seq: 2, ...tool("msg", part(2)) } as Frame);
    const before = rowsOf(transcript).map((row) => row.key);
    transcript.apply({ seq: 3, ...text("msg", part(1), "I look.") } as Frame);
    expect(rowsOf(transcript).map((row) => row.key)).toEqual(before);
  });

  it("grows by deltas without doubling what is heard twice", () => {
    const transcript = told(answer("msg", "p"));
    const delta = (offset: number, text: string) =>
      transcript.apply({ type: "part.delta", message_id: "msg", part_id: part(1), offset, text });
    delta(0, "pé");
    delta(3, "arl");
    delta(0, "pé");
    delta(3, "arl");
    const row = rowsOf(transcript)[0];
    expect(row?.kind === "part" && row.content.text).toBe("péarl");
  });

  it("keeps the rows of a message that is done", () => {
    const transcript = told(answer("msg", "p"), text("msg", part(1), "Done."), {
      type: "message.done",
      message_id: "msg",
      reason: "end_turn",
    });
    const first = rowsOf(transcript)[0];
    transcript.apply({ seq: 9, ...user("next", "more") } as Frame);
    expect(rowsOf(transcript)[0]).toBe(first);
  });

  it("leaves out what says nothing", () => {
    const transcript = told(answer("msg", "p"), text("msg", part(1), "  "), {
      type: "part",
      message_id: "msg",
      part_id: "finish",
      content: { kind: "finish", reason: "end_turn" },
    });
    expect(rowsOf(transcript)).toEqual([]);
  });

  it("tells of another model where it changed", () => {
    const transcript = told(user("one", "a"), user("two", "b"));
    const change: Note = { kind: "switch", key: "s", seq: 1.5, at: 0, from: "a/b", to: "c/d", reason: "overloaded" };
    expect(rowsOf(transcript, [change]).map((row) => row.kind)).toEqual(["user", "note", "user"]);
  });

  it("says where a fork begins", () => {
    const transcript = told({ ...user("one", "before"), inherited: true });
    expect(rowsOf(transcript).map((row) => row.key)).toEqual(["usr-one", "forked"]);
    transcript.apply({ seq: 9, ...user("two", "after") } as Frame);
    expect(rowsOf(transcript).map((row) => row.key)).toEqual(["usr-one", "forked", "usr-two"]);
  });

  it("puts what is known by its time alone before what is newer", () => {
    const transcript = new Transcript();
    const message = (position: number, second: number) => ({
      id: `m${position}`,
      position,
      role: "user",
      channel: "web:default",
      created_at: new Date(second * 1000).toISOString(),
      parts: [],
    });
    transcript.addOlder([message(1, 10), message(5, 20)]);
    const at = (second: number): Note => ({
      kind: "blocked",
      key: `b${second}`,
      seq: null,
      at: second * 1000,
      blocked: { at: "", host: "a.example", port: 443, reason: "not-listed", can_allow: true },
    });
    const keys = () => rowsOf(transcript, [at(30), at(15)]).map((row) => row.key);
    expect(keys()).toEqual(["m1", "b15", "m5", "b30"]);
    transcript.apply({ seq: 9, ...user("live", "heard here") } as Frame);
    expect(keys()).toEqual(["m1", "b15", "m5", "b30", "usr-live"]);
  });
});
