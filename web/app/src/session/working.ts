import type { Transcript } from "@nacre/client";

/**
 * Whether a turn is under way. Who comes in the middle of one hears of the agent only when it does
 * something else; an answer that is not done tells it, too.
 */
export function isWorking(transcript: Transcript): boolean {
  const isBusy = Object.values(transcript.agents).some((agent) => agent.status !== "idle" && agent.status !== "error");
  return isBusy || transcript.messages.slice(-20).some((message) => message.role === "assistant" && !message.done);
}
