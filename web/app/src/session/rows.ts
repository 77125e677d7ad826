// A transcript as rows: one for each part, so that a long answer is as light as many short ones.

import type { Content, HeldMessage, HeldPart, Transcript } from "@nacre/client";
import { type Note, placed } from "./notes";

export type Row = { key: string; isReverted: boolean } & (
  | { kind: "user"; message: HeldMessage; parts: readonly Content[]; prompt: string | null }
  | { kind: "system"; message: HeldMessage; content: Content }
  | { kind: "part"; message: HeldMessage; content: Content; isOpen: boolean }
  | { kind: "end"; message: HeldMessage; reason: string | null; error: string | null }
  | { kind: "note"; note: Note }
);

/** Answers after what they answer: a prompt that waits is opened before the answer that is under way. */
export function inTurns(messages: readonly HeldMessage[]): HeldMessage[] {
  const answers = new Map<string, HeldMessage[]>();
  const asked = new Set<string>();
  for (const message of messages) {
    if (message.role === "user" && message.prompt_id !== null) asked.add(message.prompt_id);
  }
  const out: HeldMessage[] = [];
  for (const message of messages) {
    const prompt = message.prompt_id;
    if (message.role !== "user" && prompt !== null && asked.has(prompt)) {
      const known = answers.get(prompt);
      if (known) known.push(message);
      else answers.set(prompt, [message]);
    }
  }
  for (const message of messages) {
    const prompt = message.prompt_id;
    if (message.role !== "user" && prompt !== null && asked.has(prompt)) continue;
    out.push(message);
    if (message.role === "user" && prompt !== null) {
      out.push(...(answers.get(prompt) ?? []));
      answers.delete(prompt);
    }
  }
  return out;
}

const NAMED_BY_TIME = /^prt_[0-9a-z]{26}$/;

/** Of a name: as much as tells the time, in milliseconds. */
const TIME = "prt_".length + 10;

/**
 * In the order in which they began. The log tells of a part when it is whole, so words that led to a
 * tool may come after it; names that were made in order of time say how it was. Of what began in the
 * same moment, words came before the tool that they led to.
 */
export function inOrder(parts: readonly HeldPart[]): readonly HeldPart[] {
  const timed = parts.filter((part) => NAMED_BY_TIME.test(part.part_id));
  if (timed.length < 2) return parts;
  const rank = (part: HeldPart) => `${part.part_id.slice(0, TIME)}${part.content.kind === "tool" ? 1 : 0}`;
  // Those of one moment and kind stay as they are: sorting is stable.
  timed.sort((one, other) => (rank(one) < rank(other) ? -1 : rank(one) > rank(other) ? 1 : 0));
  let next = 0;
  return parts.map((part) => (NAMED_BY_TIME.test(part.part_id) ? (timed[next++] ?? part) : part));
}

const held = new WeakMap<HeldMessage, { parts: readonly HeldPart[]; reverted: boolean; rows: Row[] }>();

const FORKED: Note = { kind: "forked", key: "forked", seq: null, at: 0 };

export function rowsOf(transcript: Transcript, notes: readonly Note[] = []): Row[] {
  const rows: Row[] = [];
  const between = placed(notes, transcript.messages);
  let next = 0;
  const tellUntil = (position: number) => {
    for (; next < between.length && (between[next]?.position ?? 0) < position; next += 1) {
      const note = between[next]?.note;
      if (note) rows.push({ key: note.key, isReverted: false, kind: "note", note });
    }
  };
  let isInherited = false;
  const tellOfFork = () => {
    if (!isInherited) return;
    isInherited = false;
    rows.push({ key: "forked", isReverted: false, kind: "note", note: FORKED });
  };
  for (const message of inTurns(transcript.messages)) {
    if (!message.inherited) tellOfFork();
    isInherited = message.inherited;
    tellUntil(message.position);
    for (const row of rowsOfMessage(message)) rows.push(row);
  }
  tellOfFork();
  tellUntil(Number.POSITIVE_INFINITY);
  return rows;
}

function rowsOfMessage(message: HeldMessage): Row[] {
  const known = held.get(message);
  const isSame = known !== undefined && known.parts === message.parts && known.reverted === message.reverted;
  // Of one that is done nothing changes but that.
  if (isSame && message.done) return known.rows;
  const rows = fresh(message);
  if (message.done) held.set(message, { parts: message.parts, reverted: message.reverted, rows });
  return rows;
}

function fresh(message: HeldMessage): Row[] {
  const isReverted = message.reverted;
  if (message.role === "user") {
    const parts = message.parts.map((part) => part.content);
    return [{ key: message.id, isReverted, kind: "user", message, parts, prompt: message.prompt_id }];
  }
  if (message.role === "system") {
    return message.parts.map((part) => ({
      key: `${message.id}/${part.part_id}`,
      isReverted,
      kind: "system",
      message,
      content: part.content,
    }));
  }
  const rows: Row[] = [];
  for (const part of inOrder(message.parts)) {
    if (part.content.kind === "finish") continue;
    const isEmpty = (part.content.kind === "text" || part.content.kind === "reasoning") && part.text.trim() === "";
    if (isEmpty) continue;
    const key = `${message.id}/${part.part_id}`;
    rows.push({ key, isReverted, kind: "part", message, content: part.content, isOpen: part.open });
  }
  if (message.done) {
    rows.push({
      key: `${message.id}/end`,
      isReverted,
      kind: "end",
      message,
      reason: message.reason,
      error: message.error,
    });
  }
  return rows;
}
