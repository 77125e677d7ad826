// Everything that the palette can do, from where somebody is.

import type { v1 } from "@nacre/client";
import { client } from "./api";
import { repoName } from "./format";
import { openKeys } from "./keys";
import { PANELS } from "./panels/panels";
import { newTerminal } from "./panels/terminal-tabs";
import { navigate, type Page } from "./router";
import { archive, fork, pause, remove, resume, stop, takeSnapshot } from "./session/deeds";
import { can, type Deed, listed, statusOf } from "./session/status";
import { openNew } from "./sessions/new";
import { nextTheme, setTheme } from "./theme";
import type { IconName } from "./ui/icon";
import { complain } from "./ui/toasts";

export interface Command {
  group: string;
  name: string;
  hint: string;
  icon: IconName;
  act: () => void;
}

/** Who may only look is offered no deeds. */
export function commandsAt(page: Page, sessions: readonly v1.Session[], mayChange: boolean): Command[] {
  const id = page.page === "session" ? page.id : null;
  const session = sessions.find((one) => one.id === id);
  return [
    ...(id === null || !mayChange ? [] : toAgent(id, session)),
    ...(id === null ? [] : comparing(id, session, sessions)),
    ...(id === null || !mayChange ? [] : toSession(id, session)),
    ...(id === null ? [] : ofPanels(id)),
    ...(mayChange ? [everywhere("New session", "n", "plus", openNew)] : []),
    ...ANYBODYS,
    ...sessions.map(
      (one): Command => ({
        group: "Sessions",
        name: one.title,
        hint: [listed(one).label, repoName(one.repos?.[0]?.url)].filter((word) => word !== "").join(" · "),
        icon: "command",
        act: () => navigate(`/sessions/${one.id}`),
      }),
    ),
  ];
}

const here = (name: string, icon: IconName, act: () => unknown, hint = ""): Command => ({
  group: "This session",
  name,
  hint,
  icon,
  act: () => void act(),
});

/** One that is not on the list is offered everything: the server says what it refuses. */
function isDone(deed: Deed, session: v1.Session | undefined): boolean {
  return session === undefined || can(deed, statusOf(session));
}

/** An older server does not say, and then it may. */
function hasTurn({ client_status, agent_state }: v1.Session): boolean {
  return client_status === "running" && agent_state !== "idle";
}

function toAgent(id: string, session: v1.Session | undefined): Command[] {
  const named = { id, title: session?.title ?? "this session" };
  return [
    ...(isDone("prompt", session)
      ? [here("Write to the agent", "pencil", () => document.getElementById("composer")?.focus())]
      : []),
    ...(session === undefined || hasTurn(session)
      ? [here("Cancel the turn", "close", () => client.cancel(id).catch(complain), "Escape")]
      : []),
    ...(isDone("pause", session) ? [here("Pause", "pause", () => pause(named))] : []),
    ...(isDone("resume", session) ? [here("Resume", "play", () => resume(named))] : []),
    ...(isDone("snapshot", session) ? [here("Take a snapshot", "keep", () => takeSnapshot(named))] : []),
    ...(isDone("fork", session) ? [here("Fork", "branch", () => fork(named))] : []),
  ];
}

function comparing(id: string, session: v1.Session | undefined, all: readonly v1.Session[]): Command[] {
  const kin = all.filter(
    (one) =>
      one.id !== id &&
      (one.parent_id === id ||
        one.id === session?.parent_id ||
        (session?.parent_id && one.parent_id === session.parent_id)),
  );
  return kin.map((one) =>
    here(`Compare with “${one.title}”`, "branch", () => navigate(`/compare/${id}/${one.id}`), "compare"),
  );
}

function toSession(id: string, session: v1.Session | undefined): Command[] {
  const named = { id, title: session?.title ?? "this session" };
  return [
    here("New terminal", "command", () => {
      navigate(`/sessions/${id}/terminal`);
      newTerminal(id);
    }),
    here("Rename", "pencil", () => document.getElementById("session-title")?.click()),
    ...(isDone("stop", session) ? [here("Stop for good…", "stop", () => stop(named))] : []),
    here("Archive", "keep", () => archive(named)),
    here("Delete", "trash", () => remove(named), "can be undone for a moment"),
  ];
}

function ofPanels(id: string): Command[] {
  const panels = PANELS.map(
    (panel): Command => ({
      group: "Panels",
      name: panel.label,
      hint: "panel",
      icon: "sidebar",
      act: () => navigate(`/sessions/${id}/${panel.name}`),
    }),
  );
  const hide = { group: "Panels", name: "Hide panels", hint: "panel", icon: "sidebar" as const };
  return [...panels, { ...hide, act: () => navigate(`/sessions/${id}`) }];
}

const everywhere = (name: string, hint: string, icon: IconName, act: () => void): Command => ({
  group: "Everywhere",
  name,
  hint,
  icon,
  act,
});

const ANYBODYS: readonly Command[] = [
  everywhere("All sessions", "page", "back", () => navigate("/")),
  everywhere("Settings", "page", "key", () => navigate("/settings/models")),
  everywhere("Keys", "?", "keyboard", openKeys),
  everywhere("Light or dark", "theme", "moon", nextTheme),
  everywhere("As the system has it", "theme", "sun", () => setTheme("system")),
];

/** Every word of the search is somewhere in it; what begins with it comes first, groups stay together. */
export function matching<T extends { group: string; name: string; hint: string }>(
  commands: readonly T[],
  search: string,
): T[] {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = commands.filter((command) => {
    const text = `${command.name} ${command.hint}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const rank = (command: T) => (command.name.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  const best = new Map<string, number>();
  for (const command of found) best.set(command.group, Math.min(best.get(command.group) ?? 1, rank(command)));
  const groups = [...best.keys()].sort((one, other) => (best.get(one) ?? 1) - (best.get(other) ?? 1));
  return groups.flatMap((group) =>
    found.filter((command) => command.group === group).sort((one, other) => rank(one) - rank(other)),
  );
}
