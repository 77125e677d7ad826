// Frames of a session's socket. Written by hand, beside `crates/wire/src/v1/{event,frame}.rs`.

import type { Action, ActionStatus, Message, MessagePart, NewPrompt, Prompt, Session } from "./types.js";

/** The first frame of a connection that does not go on from where it was. */
export interface Init {
  type: "init";
  session: Session;
  /** The number of the last event that is in it. */
  seq: number;
  /** The newest, in order; `GET …/messages` has the rest. */
  messages: Message[];
  /** What waits for a person: the events that asked. */
  questions?: Asked[];
  /** Prompts that are not over, where the server tells of them. */
  prompts?: Prompt[];
  /** What agents asked to have done outside, and nobody decided yet. */
  actions?: Action[];
  /** Values that were asked for and not given yet, where the server tells of them. */
  env_requests?: { id: string; keys: unknown[] }[];
  runtime: { preview_url?: string; expires_at?: string; ssh?: string };
  /** The client was too far behind, and begins anew. */
  resync?: boolean;
}

export interface Watcher {
  /** A user's id, or `service`. */
  id: string;
  name: string;
  /** How many connections. */
  connections: number;
}

export interface Phase {
  name: string;
  state: "started" | "done" | "failed" | "skipped";
  took_ms?: number;
  detail?: string;
}

export type ClientStatus = Session["client_status"];
export type PromptStatus = Prompt["status"];
export type AgentStatus = "idle" | "thinking" | "tool_calling" | "streaming" | "waiting" | "error";
export type Reason = "end_turn" | "error" | "canceled";

export interface QuestionItem {
  header?: string;
  text: string;
  options?: { label: string; description?: string }[];
  choose?: "one" | "several";
  /** An answer may be none of the options. */
  free_text?: boolean;
}

export interface Question {
  type: "question";
  question_id: string;
  prompt_id?: string;
  channel: string;
  /** All of them are answered before the agent gets any. */
  items: QuestionItem[];
  expires_at?: string;
}

export interface Permission {
  type: "permission";
  id: string;
  prompt_id?: string;
  channel: string;
  /** In the agent's own word: `bash`, `edit`, … */
  tool: string;
  targets?: string[];
  expires_at?: string;
}

export type Asked = Question | Permission;

export type Outcome =
  | { kind: "answered"; answers: string[][] }
  | { kind: "allowed" | "refused" | "expired" | "gone" };

/** What the log tells. It only grows: one of another type is left alone. */
export type Event =
  | { type: "pong" }
  | { type: "presence"; watchers: Watcher[] }
  | { type: "status"; status: ClientStatus; message?: string | null; phase?: Phase | null }
  | { type: "title"; title: string }
  | {
      type: "message";
      message_id: string;
      role?: string;
      channel: string;
      prompt_id?: string | null;
      author?: unknown;
      parts?: MessagePart[];
    }
  /** `offset` counts bytes of UTF-8. */
  | { type: "part.delta"; message_id: string; part_id: string; offset: number; text: string }
  | { type: "part"; message_id: string; part_id: string; open?: boolean; content: unknown }
  | { type: "part.removed"; message_id: string; part_id: string }
  | { type: "message.removed"; message_id: string }
  | {
      type: "message.done";
      message_id: string;
      reason: Reason;
      error?: string | null;
      usage?: unknown;
    }
  | { type: "reverted"; message_ids?: string[]; error?: string | null }
  /** With `content`, it was said otherwise while it waited. */
  | { type: "prompt"; id: string; status: PromptStatus; reason?: string | null; content?: string | null }
  | {
      type: "agent_status";
      status: AgentStatus;
      detail?: string | null;
      prompt_id?: string | null;
      channel?: string | null;
    }
  | Question
  | { type: "question_closed"; question_id: string; outcome: Outcome }
  | Permission
  | { type: "permission_closed"; id: string; outcome: Outcome }
  | ({ type: "action_approval_request" } & Action)
  | {
      type: "action_approval_result";
      id: string;
      status: ActionStatus;
      decided_by?: string | null;
      message?: string | null;
    }
  | { type: "model_switched"; prompt_id: string; channel: string; from: string; to: string; reason: string }
  | { type: "preview_url"; url?: string | null }
  /** About a command: `frame` is its type, and `id` or `request_id` its own. */
  | {
      type: "error";
      code: string;
      message: string;
      prompt_id?: string;
      frame?: string;
      id?: string;
      request_id?: string;
    };

/** What is committed has a number; what is said in passing has none. */
export type Numbered = Event & { seq?: number };

/** One of a type that is not known here. */
export interface Other {
  type: string;
  seq?: number;
  [field: string]: unknown;
}

export type Frame = Init | Numbered | Other;

export type Answer = boolean | string | string[];

/** What a client says. */
export type Command =
  | { type: "ping" | "pause" | "get_status" | "run_auto_start" }
  | ({ type: "prompt" } & NewPrompt)
  | { type: "cancel"; channel?: string }
  | { type: "new_session"; channel?: string; request_id?: string }
  | { type: "answer"; question_id: string; item?: number; answer?: Answer }
  | { type: "permission"; id: string; allow: boolean }
  | { type: "save_snapshot"; message?: string }
  | { type: "git_status" | "git_push"; repo?: string }
  | { type: "git_create_branch"; repo?: string; name: string }
  | { type: "git_commit"; repo?: string; message: string; include_untracked?: boolean; files?: string[] }
  | { type: "git_create_pr"; repo?: string; title: string; body?: string; base?: string }
  | { type: "revert"; message_id: string; request_id?: string; channel?: string }
  | { type: "diff"; request_id: string; channel?: string }
  | { type: "review"; request_id: string; focus?: string; model?: string }
  | { type: "command"; request_id: string; command: string; args?: string; channel?: string };

/** Null if it is no frame at all. */
export function readFrame(text: string): Frame | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const frame = value as Record<string, unknown>;
  if (typeof frame["type"] !== "string") return null;
  if (frame["type"] === "init" && !isInit(frame)) return null;
  return frame as unknown as Frame;
}

function isInit(frame: Record<string, unknown>): boolean {
  const session = frame["session"];
  return typeof frame["seq"] === "number" && Array.isArray(frame["messages"]) && typeof session === "object" && session !== null;
}

export function isInitFrame(frame: Frame): frame is Init {
  return frame.type === "init";
}

/** Its number in the log, if it has one. */
export function numberOf(frame: Frame): number | null {
  const seq = frame.type === "init" ? undefined : frame.seq;
  return typeof seq === "number" && Number.isSafeInteger(seq) && seq >= 0 ? seq : null;
}
