// What is told between messages: another model, a host that was refused, a decision.

import type { HeldMessage, v1 } from "@nacre/client";

export type Note = {
  key: string;
  /** Its number in the log; null where it is known from elsewhere, by its time alone. */
  seq: number | null;
  at: number;
} & (
  | { kind: "switch"; from: string; to: string; reason: string }
  | { kind: "blocked"; blocked: v1.EgressBlocked }
  | { kind: "forked" }
  | { kind: "decided"; what: string; status: v1.ActionStatus; message: string | null }
);

/** Each with the number of the log before which it stands, in order. */
export function placed(notes: readonly Note[], messages: readonly HeldMessage[]): { note: Note; position: number }[] {
  return notes
    .map((note) => ({ note, position: note.seq ?? positionAt(messages, note.at) }))
    .sort((one, other) => one.position - other.position || one.note.at - other.note.at);
}

/** Before the first message that is newer. What the page heard itself has no time, and is newer. */
function positionAt(messages: readonly HeldMessage[], at: number): number {
  const next = messages.find((message) => message.created_at === null || Date.parse(message.created_at) > at);
  return (next?.position ?? Number.MAX_SAFE_INTEGER) - 0.5;
}

export function sameHost(one: v1.EgressBlocked, other: v1.EgressBlocked): boolean {
  return one.host === other.host && one.port === other.port;
}

/** The newest first, each host and port once. */
export function together(heard: readonly v1.EgressBlocked[], told: readonly v1.EgressBlocked[]): v1.EgressBlocked[] {
  return [...heard, ...told.filter((one) => !heard.some((known) => sameHost(known, one)))];
}

/** Whether one of these rules, `host` or `host:port`, lets it through. */
export function isAllowed(blocked: v1.EgressBlocked, rules: readonly string[]): boolean {
  return rules.some((rule) => rule === blocked.host || rule === `${blocked.host}:${blocked.port}`);
}

/** Where it was going; the ports of the web go without saying. */
export function placeOf({ host, port }: v1.EgressBlocked): string {
  return port === 80 || port === 443 ? host : `${host}:${port}`;
}

export const POLICIES: Record<string, string> = {
  open: "Every public host may be reached.",
  proxy: "Only what is on the list may be reached.",
  none: "Nothing may be reached, but for models and git.",
};
