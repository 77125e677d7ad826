import { Http, type HttpOptions } from "./http.js";
import { Session, type SessionOptions, type SocketFactory } from "./session.js";
import type * as v1 from "./types.js";

export interface ClientOptions extends HttpOptions {
  /** How a WebSocket is opened, where the global one cannot: Node 20, or an own library. */
  webSocket?: SocketFactory;
  /** Gets a one-time ticket for a socket, where neither header nor cookie goes with it. */
  ticket?: () => Promise<string>;
}

export interface Paging {
  /** `next_cursor` of the page before. */
  cursor?: string;
  limit?: number;
}

export interface ForSessions extends Paging {
  status?: v1.Status;
  /** Archived ones instead of the others. */
  archived?: boolean;
  /** Only those with this in their title. */
  search?: string;
  /** Only those that were forked from this one. */
  parent?: string;
}

export interface Page<T> {
  items: T[];
  /** Absent at the end. */
  next_cursor?: string | null;
}

const SESSIONS = ["v1", "sessions"];

/** One server, and the right to use it. */
export class Client {
  readonly http: Http;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions = {}) {
    this.http = new Http(options);
    this.#options = options;
  }

  /** Follows a session until it is closed; a paused one resumes, unless `wake` is false. */
  follow(id: string, options: SessionOptions = {}): Session {
    return new Session(this, id, { ...this.#options, ...options });
  }

  createSession(session: v1.NewSession): Promise<v1.Session> {
    return this.http.answer({ method: "POST", path: SESSIONS, json: session, once: true });
  }

  sessions({ archived, ...rest }: ForSessions = {}): Promise<Page<v1.Session>> {
    const query = { ...rest, archived: archived === true ? "true" : undefined };
    return this.http.answer({ method: "GET", path: SESSIONS, query });
  }

  session(id: string): Promise<v1.Session> {
    return this.#get(id);
  }

  changeSession(id: string, change: v1.ChangeSession): Promise<v1.Session> {
    return this.http.answer({ method: "PATCH", path: [...SESSIONS, id], json: change });
  }

  deleteSession(id: string): Promise<void> {
    return this.http.done({ method: "DELETE", path: [...SESSIONS, id] });
  }

  pause(id: string): Promise<v1.SessionWithReceipt> {
    return this.#post([id, "pause"]);
  }

  resume(id: string): Promise<v1.Session> {
    return this.#post([id, "resume"]);
  }

  stop(id: string): Promise<v1.SessionWithReceipt> {
    return this.#post([id, "stop"]);
  }

  fork(id: string, fork: v1.Fork = {}): Promise<v1.Session> {
    return this.#post([id, "fork"], fork);
  }

  recover(id: string): Promise<v1.Session> {
    return this.#post([id, "recover"], { accept: true });
  }

  createSnapshot(id: string, snapshot: v1.NewSnapshot = {}): Promise<v1.Receipt> {
    return this.#post([id, "snapshots"], snapshot);
  }

  snapshotsOf(id: string, paging: Paging = {}): Promise<Page<v1.SnapshotInfo>> {
    return this.#get(id, ["snapshots"], { ...paging });
  }

  /** The transcript. It needs no sandbox. */
  messages(id: string, paging: Paging = {}): Promise<Page<v1.Message>> {
    return this.#get(id, ["messages"], { ...paging });
  }

  /** It is given an id if it has none, so that it runs once however often it is sent. */
  sendPrompt(id: string, prompt: v1.NewPrompt): Promise<v1.Prompt> {
    const json = { ...prompt, id: prompt.id ?? newPromptId() };
    return this.http.answer({ method: "POST", path: [...SESSIONS, id, "prompts"], json, sameAgain: true });
  }

  prompt(id: string, prompt: string): Promise<v1.Prompt> {
    return this.#get(id, ["prompts", prompt]);
  }

  /** Says it otherwise, while it waits. */
  editPrompt(id: string, prompt: string, edit: v1.EditPrompt): Promise<v1.Prompt> {
    return this.http.answer({ method: "PATCH", path: [...SESSIONS, id, "prompts", prompt], json: edit });
  }

  /** Takes it back, while it waits. */
  withdrawPrompt(id: string, prompt: string): Promise<void> {
    return this.http.done({ method: "DELETE", path: [...SESSIONS, id, "prompts", prompt] });
  }

  /** Not tried again: by then another turn may run. */
  cancel(id: string): Promise<v1.Session> {
    return this.http.answer({ method: "POST", path: [...SESSIONS, id, "cancel"] });
  }

  /** Not tried again: it may have run. */
  exec(id: string, request: Partial<v1.ExecRequest> & { argv: string[] }): Promise<v1.ExecAnswer> {
    return this.http.answer({ method: "POST", path: [...SESSIONS, id, "exec"], json: request });
  }

  readFile(id: string, path: string): Promise<Response> {
    return this.http.response({ method: "GET", path: [...SESSIONS, id, "files"], query: { path } });
  }

  writeFile(id: string, path: string, bytes: Blob | ArrayBuffer | Uint8Array): Promise<void> {
    return this.http.done({ method: "PUT", path: [...SESSIONS, id, "files"], query: { path }, bytes });
  }

  listFiles(id: string, path: string): Promise<v1.FileList> {
    return this.#get(id, ["files", "list"], { path });
  }

  ports(id: string): Promise<v1.PortList> {
    return this.#get(id, ["ports"]);
  }

  services(id: string): Promise<v1.ServiceList> {
    return this.#get(id, ["services"]);
  }

  actOnService(id: string, name: string, action: "start" | "stop" | "restart"): Promise<void> {
    return this.http.done({ method: "POST", path: [...SESSIONS, id, "services", name, action] });
  }

  /** The last bytes of what it printed. */
  async serviceLogs(id: string, name: string, tail?: number): Promise<string> {
    const path = [...SESSIONS, id, "services", name, "logs"];
    return (await this.http.response({ method: "GET", path, query: { tail } })).text();
  }

  gitStatus(id: string, repo?: string): Promise<unknown> {
    return this.#get(id, ["git", "status"], { repo });
  }

  /** Against the last commit, or against `base`, whatever was committed since. */
  gitDiff(id: string, repo?: string, path?: string, base?: string): Promise<unknown> {
    return this.#get(id, ["git", "diff"], { repo, path, base });
  }

  giveEnv(id: string, values: v1.EnvValues): Promise<void> {
    return this.http.done({ method: "POST", path: [...SESSIONS, id, "env"], json: values, once: true });
  }

  /** Lets what an agent asked for be done. */
  approveAction(id: string, action: string): Promise<v1.Action> {
    return this.#post([id, "actions", action, "approve"], {});
  }

  /** With a word for the agent, why not. */
  denyAction(id: string, action: string, decision: v1.Decision = {}): Promise<v1.Action> {
    return this.#post([id, "actions", action, "deny"], decision);
  }

  /** What a session may reach, and was refused. */
  egress(id: string): Promise<v1.Egress> {
    return this.#get(id, ["egress"]);
  }

  /** Lets a session reach a host that it was refused: for a while, or for good. */
  allowEgress(id: string, wanted: { host: string; port?: number; allow: "once" | "always" }): Promise<void> {
    return this.http.done({ method: "POST", path: [...SESSIONS, id, "egress"], json: wanted, once: true });
  }

  /** Where a browser finds a port, `app`, `editor`, `desktop` or `terminal`: good once, for a minute. */
  open(id: string, target: string): Promise<v1.Endpoint> {
    return this.http.answer({ method: "POST", path: [...SESSIONS, id, "open"], json: { target } });
  }

  /** A link to one port that lets anybody in, for a while. */
  share(id: string, share: v1.Share): Promise<v1.ShareMade> {
    return this.#post([id, "shares"], share);
  }

  unshare(id: string, share: string): Promise<void> {
    return this.http.done({ method: "DELETE", path: [...SESSIONS, id, "shares", share] });
  }

  upload(bytes: Blob | ArrayBuffer | Uint8Array, about: { name?: string; media_type?: string } = {}): Promise<v1.Upload> {
    return this.http.answer({ method: "POST", path: ["v1", "uploads"], query: { ...about }, bytes });
  }

  me(): Promise<v1.Caller> {
    return this.#list("me");
  }

  organisations(paging: Paging = {}): Promise<Page<v1.Organisation>> {
    return this.#list("orgs", paging);
  }

  createOrganisation(organisation: v1.NewOrganisation): Promise<v1.Organisation> {
    return this.http.answer({ method: "POST", path: ["v1", "orgs"], json: organisation });
  }

  tokens(paging: Paging = {}): Promise<Page<v1.Token>> {
    return this.#list("tokens", paging);
  }

  /** The token is in this answer, and in no other. */
  createToken(token: v1.NewToken): Promise<v1.TokenMade> {
    return this.http.answer({ method: "POST", path: ["v1", "tokens"], json: token });
  }

  revokeToken(id: string): Promise<void> {
    return this.http.done({ method: "DELETE", path: ["v1", "tokens", id] });
  }

  secrets(paging: Paging = {}): Promise<Page<v1.SecretInfo>> {
    return this.#list("secrets", paging);
  }

  putSecret(secret: v1.NewSecret): Promise<v1.SecretInfo> {
    return this.http.answer({ method: "PUT", path: ["v1", "secrets"], json: secret, once: true });
  }

  deleteSecret(id: string): Promise<void> {
    return this.http.done({ method: "DELETE", path: ["v1", "secrets", id] });
  }

  snapshots(paging: Paging = {}): Promise<Page<v1.SnapshotInfo>> {
    return this.#list("snapshots", paging);
  }

  providers(): Promise<v1.ProviderList> {
    return this.#list("providers");
  }

  models(): Promise<v1.ModelList> {
    return this.#list("models");
  }

  #get<T>(id: string, rest: string[] = [], query: Record<string, string | number | undefined> = {}): Promise<T> {
    return this.http.answer({ method: "GET", path: [...SESSIONS, id, ...rest], query });
  }

  #post<T>(rest: string[], json?: unknown): Promise<T> {
    return this.http.answer({ method: "POST", path: [...SESSIONS, ...rest], json, once: true });
  }

  #list<T>(noun: string, paging: Paging = {}): Promise<T> {
    return this.http.answer({ method: "GET", path: ["v1", noun], query: { ...paging } });
  }
}

export function newPromptId(): string {
  return `prm_${crypto.randomUUID().replaceAll("-", "")}`;
}
