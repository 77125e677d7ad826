// Which terminals of a session have a tab. They live in the sandbox; a tab only looks at one.

import { client } from "../api";
import { Store } from "../store";

const MOST = 16;

/** Of one session, while its page is open. */
export const tabs = new Store<{ session: string; names: string[]; open: string }>({
  session: "",
  names: ["main"],
  open: "main",
});

/** What was open here last, and what the sandbox says that it has. */
export function showTabs(session: string): void {
  const names = kept(session);
  if (tabs.get().session !== session) tabs.set({ session, names, open: names[0] ?? "main" });
  void client.http
    .answer<unknown>({ method: "GET", path: ["v1", "sessions", session, "terminals"] })
    .then((told) => {
      const running = namesIn(told);
      tabs.change((now) => {
        if (now.session !== session) return now;
        return keep({ ...now, names: [...new Set([...now.names, ...running])].slice(0, MOST) });
      });
    })
    // An older server does not tell: then the browser's own memory has to do.
    .catch(() => {});
}

export function newTerminal(session: string): void {
  if (tabs.get().session !== session) showTabs(session);
  tabs.change((now) => {
    const free = Array.from({ length: MOST }, (_, at) => `${at + 2}`).find((name) => !now.names.includes(name));
    return free === undefined ? now : keep({ ...now, names: [...now.names, free], open: free });
  });
}

export function openTab(name: string): void {
  tabs.change((now) => ({ ...now, open: name }));
}

/** The shell ends with its tab, where the server can end it. */
export function shutTab(name: string): void {
  const { session } = tabs.get();
  void client.http
    .done({ method: "DELETE", path: ["v1", "sessions", session, "terminals", name] })
    // One that is gone already, or that an older server leaves running.
    .catch(() => {});
  tabs.change((now) => {
    const names = now.names.filter((other) => other !== name);
    const rest = names.length === 0 ? ["main"] : names;
    return keep({ ...now, names: rest, open: now.open === name ? (rest[0] ?? "main") : now.open });
  });
}

export function namesIn(told: unknown): string[] {
  const list =
    (told as { terminals?: unknown; items?: unknown } | null)?.terminals ?? (told as { items?: unknown })?.items;
  if (!Array.isArray(list)) return [];
  return list
    .map((one) => (typeof one === "string" ? one : (one as { name?: unknown } | null)?.name))
    .filter((name): name is string => typeof name === "string" && name !== "");
}

function keep<T extends { session: string; names: string[] }>(next: T): T {
  sessionStorage.setItem(`nacre-terminals-${next.session}`, JSON.stringify(next.names));
  return next;
}

function kept(session: string): string[] {
  try {
    const value: unknown = JSON.parse(sessionStorage.getItem(`nacre-terminals-${session}`) ?? "");
    if (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string")) return value;
  } catch {
    // Then it begins anew.
  }
  return ["main"];
}
