export { Client, newPromptId, type ClientOptions, type ForSessions, type Page, type Paging } from "./client.js";
export { ClientError, type ErrorKind } from "./error.js";
export type * from "./frames.js";
export { readFrame } from "./frames.js";
export { Http, type Call, type HttpOptions } from "./http.js";
export { HeldMessage, HeldPart, type Content, type Usage } from "./message.js";
export {
  Session,
  type Pace,
  type SessionOptions,
  type SocketFactory,
  type SocketLike,
  type Update,
} from "./session.js";
export { isOver, Transcript, type AgentState, type HeldPrompt, type Standing } from "./transcript.js";
export type * as v1 from "./types.js";
