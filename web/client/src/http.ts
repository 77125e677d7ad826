// Calls over HTTP: made, and tried again where that cannot do a thing twice.

import { ClientError, refusal } from "./error.js";

const TRIES = 5;
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 3000;
const LONGEST_ASKED_MS = 30_000;

export interface Call {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the server's address; each is a name, and cannot lead elsewhere. */
  path: string[];
  query?: Record<string, string | number | undefined>;
  json?: unknown;
  bytes?: Blob | ArrayBuffer | Uint8Array;
  /** With a key of its own: sent several times, it happens once. */
  once?: boolean;
  /** What it says makes it one call already. */
  sameAgain?: boolean;
  signal?: AbortSignal;
}

export interface HttpOptions {
  /** `http://127.0.0.1:7070`; in a browser, where the page is from unless it is said. */
  url?: string;
  /** Without one, the browser's cookie lets in. */
  token?: string;
  fetch?: typeof fetch;
  /** For tests. */
  wait?: (ms: number) => Promise<void>;
}

export class Http {
  readonly base: URL;
  // Not a plain field: whoever prints a client does not print its token.
  readonly #token: string | null;
  readonly #fetch: typeof fetch;
  readonly #wait: (ms: number) => Promise<void>;

  constructor(options: HttpOptions = {}) {
    const here = (globalThis as { location?: { origin?: string } }).location?.origin;
    const url = options.url ?? here;
    if (url === undefined) throw new TypeError("give the server's address: { url: \"http://127.0.0.1:7070\" }");
    this.base = new URL(url.endsWith("/") ? url : `${url}/`);
    if (!/^https?:$/.test(this.base.protocol) || this.base.password !== "" || this.base.username !== "") {
      throw new TypeError("an address of a server looks like http://127.0.0.1:7070");
    }
    this.#token = options.token?.trim() ?? null;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#wait = options.wait ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms)));
  }

  /** What lets in. */
  headers(): Record<string, string> {
    return this.#token === null ? {} : { authorization: `Bearer ${this.#token}` };
  }

  at(path: string[], query: Call["query"] = {}): URL {
    for (const name of path) {
      if (name === "" || name === "." || name === "..") throw new TypeError(`"${name}" cannot be the name of anything`);
    }
    const url = new URL(path.map(encodeURIComponent).join("/"), this.base);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.append(name, String(value));
    }
    return url;
  }

  async answer<T>(call: Call): Promise<T> {
    return this.#tried(call, async (response) => {
      const text = await response.text();
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new ClientError("protocol", "what answers does not speak /v1", null, null, { cause });
      }
    });
  }

  /** What is answered besides yes does not matter. */
  async done(call: Call): Promise<void> {
    await this.#tried(call, async (response) => {
      await response.body?.cancel();
    });
  }

  /** The answer as it comes. */
  async response(call: Call): Promise<Response> {
    return this.#tried(call, async (response) => response);
  }

  async #tried<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const isSafe = call.method === "GET" || call.once === true || call.sameAgain === true;
    const url = this.at(call.path, call.query);
    const request = this.#request(call);
    for (let tried = 1; ; tried += 1) {
      try {
        return await read(await this.#send(url, request));
      } catch (thrown) {
        if (call.signal?.aborted) throw thrown;
        const error =
          thrown instanceof ClientError
            ? thrown
            : new ClientError("unreachable", `cannot reach ${this.base.origin}`, null, null, { cause: thrown });
        if (!isSafe || !error.canRetry || tried >= TRIES) throw error;
        const wait = Math.min(FIRST_WAIT_MS * 2 ** (tried - 1), LONGEST_WAIT_MS) * (0.75 + Math.random() / 2);
        await this.#wait(Math.max(wait, Math.min(error.retryAfterMs ?? 0, LONGEST_ASKED_MS)));
      }
    }
  }

  #request(call: Call): RequestInit {
    const headers: Record<string, string> = { ...this.headers(), "x-request-id": crypto.randomUUID() };
    if (call.once) headers["idempotency-key"] = crypto.randomUUID();
    let body: BodyInit | undefined;
    if (call.json !== undefined) {
      headers["content-type"] = "application/json";
      body = JSON.stringify(call.json);
    } else if (call.bytes !== undefined) {
      headers["content-type"] = "application/octet-stream";
      body = call.bytes as BodyInit;
    }
    // A token does not follow a redirect.
    const request: RequestInit = { method: call.method, headers, redirect: "manual", credentials: "same-origin" };
    if (body !== undefined) request.body = body;
    if (call.signal) request.signal = call.signal;
    return request;
  }

  async #send(url: URL, request: RequestInit): Promise<Response> {
    const response = await this.#fetch(url, request);
    if (response.ok) return response;
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      throw new ClientError("protocol", "the server leads elsewhere; give that address");
    }
    throw refusal(response.status, await response.text(), response.headers.get("retry-after"));
  }
}
