import { type Frame, Transcript } from "@nacre/client";
import { expect, it } from "vitest";
import { isWorking } from "../../src/session/working";

it("knows of a turn from an answer that is not done", () => {
  const transcript = new Transcript();
  expect(isWorking(transcript)).toBe(false);
  transcript.apply({ seq: 1, type: "message", message_id: "m", channel: "web:default" } as Frame);
  expect(isWorking(transcript)).toBe(true);
  transcript.apply({ seq: 2, type: "message.done", message_id: "m", reason: "end_turn" } as Frame);
  expect(isWorking(transcript)).toBe(false);
  transcript.apply({ seq: 3, type: "agent_status", status: "thinking", channel: "web:default" } as Frame);
  expect(isWorking(transcript)).toBe(true);
});
