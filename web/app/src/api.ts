// The way to the server. A cookie lets look; what changes something wants a token of a few minutes,
// which the page gets for its cookie and keeps in memory alone.

import { Client, ClientError, Http, type v1 } from "@nacre/client";
import { Store } from "./store";

/** Before its end, so that none runs out on its way. */
const SPARE_MS = 60_000;

/** Undefined: nobody knows yet. Null: nobody is signed in. */
export const caller = new Store<v1.Caller | null | undefined>(undefined);

let login: v1.Login | null = null;
let asking: Promise<string> | null = null;

async function askForToken(): Promise<string> {
  const response = await fetch("/v1/login/token", { method: "POST" });
  if (!response.ok) {
    login = null;
    if (response.status === 401) caller.set(null);
    throw new ClientError("refused", "you are signed out", {
      type: "about:blank",
      title: "Unauthorized",
      status: response.status,
      detail: "you are signed out: `nacre login` makes a new link",
      code: "unauthorised",
    });
  }
  login = (await response.json()) as v1.Login;
  return login.token;
}

function token(): Promise<string> {
  if (login !== null && Date.parse(login.expires_at) - SPARE_MS > Date.now()) return Promise.resolve(login.token);
  asking ??= askForToken().finally(() => {
    asking = null;
  });
  return asking;
}

const signed: typeof fetch = async (input, init) => {
  if (init?.method === undefined || init.method === "GET") {
    const response = await fetch(input, init);
    if (response.status === 401) caller.set(null);
    return response;
  }
  const send = async () => {
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${await token()}`);
    return fetch(input, { ...init, headers });
  };
  const response = await send();
  if (response.status !== 401) return response;
  // The server may have new keys: one more try, with a new token.
  login = null;
  return send();
};

export const client = new Client({ fetch: signed });

/** For what nobody has to be signed in for. */
const open = new Http();

/** Whether this browser is signed in, and as whom. */
export async function recognise(): Promise<void> {
  try {
    caller.set(await client.me());
  } catch (error) {
    if (error instanceof ClientError && error.kind === "refused") caller.set(null);
    else throw error;
  }
}

/** By a one-time code, or the whole link with it. */
export async function signIn(given: string): Promise<void> {
  const code = given.trim().split("#").pop() ?? "";
  login = await open.answer<v1.Login>({ method: "POST", path: ["v1", "login"], json: { code } });
  await recognise();
}

export async function signOut(): Promise<void> {
  await fetch("/v1/logout", { method: "POST" });
  login = null;
  caller.set(null);
}

/** What went wrong, for people. */
export function words(error: unknown): string {
  if (error instanceof ClientError) return error.problem?.detail ?? error.message;
  return error instanceof Error ? error.message : "something went wrong";
}

export function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof ClientError && error.code !== null && codes.includes(error.code);
}

export function isStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof ClientError && statuses.includes(error.problem?.status ?? 0);
}
