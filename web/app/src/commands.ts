// Everything that the palette can do, from where somebody is.

import type { v1 } from "@nacre/client";
import { client } from "./api";
import { repoName } from "./format";
import { openKeys } from "./keys";
import { PANELS } from "./panels/panels";
import { newTerminal } from "./panels/terminal-tabs";
import { navigate, type Page } from "./router";
import { archive, fork, pause, remove, resume, stop, takeSnapshot } from "./session/deeds";
import { can, shown, statusOf } from "./session/status";
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

export function commandsAt(page: Page, sessions: readonly v1.Session[]): Command[] {
  const here = page.page === "session" ? page.id : null;
  const session = sessions.find((one) => one.id === here);
  return [
    ...(here === null ? [] : ofSession(here, session, sessions)),
    ...(here === null ? [] : ofPanels(here)),
    ...everywhere(),
    ...sessions.map(
      (one): Command => ({
        group: "Sessions",
        name: one.title,
        hint: [shown(statusOf(one)).label, repoName(one.repos?.[0]?.url)].filter((word) => word !== "").join(" · "),
        icon: "command",
        act: () => navigate(`/sessions/${one.id}`),
      }),
    ),
  ];
}

function ofSession(id: string, session: v1.Session | undefined, all: readonly v1.Session[]): Command[] {
  const named = { id, title: session?.title ?? "this session" };
  // One that is not on the list is offered everything: the server says what it refuses.
  const status = session === undefined ? undefined : statusOf(session);
  const isDone = (deed: Parameters<typeof can>[0]) => status === undefined || can(deed, status);
  const command = (name: string, icon: IconName, act: () => unknown, hint = ""): Command => ({
    group: "This session",
    name,
    hint,
    icon,
    act: () => void act(),
  });
  const kin = all.filter(
    (one) =>
      one.id !== id &&
      (one.parent_id === id ||
        one.id === session?.parent_id ||
        (session?.parent_id && one.parent_id === session.parent_id)),
  );
  return [
    ...(isDone("prompt")
      ? [command("Write to the agent", "pencil", () => document.getElementById("composer")?.focus())]
      : []),
    ...(status === undefined || status === "running"
      ? [command("Cancel the turn", "close", () => client.cancel(id).catch(complain), "Escape")]
      : []),
    ...(isDone("pause") ? [command("Pause", "pause", () => pause(named))] : []),
    ...(isDone("resume") ? [command("Resume", "play", () => resume(named))] : []),
    ...(isDone("snapshot") ? [command("Take a snapshot", "keep", () => takeSnapshot(named))] : []),
    ...(isDone("fork") ? [command("Fork", "branch", () => fork(named))] : []),
    ...kin.map((one) =>
      command(`Compare with “${one.title}”`, "branch", () => navigate(`/compare/${id}/${one.id}`), "compare"),
    ),
    command("New terminal", "command", () => {
      navigate(`/sessions/${id}/terminal`);
      newTerminal(id);
    }),
    command("Rename", "pencil", () => document.getElementById("session-title")?.click()),
    ...(isDone("stop") ? [command("Stop for good…", "stop", () => stop(named))] : []),
    command("Archive", "keep", () => archive(named)),
    command("Delete", "trash", () => remove(named), "can be undone for a moment"),
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

function everywhere(): Command[] {
  const command = (name: string, hint: string, icon: IconName, act: () => void): Command => ({
    group: "Everywhere",
    name,
    hint,
    icon,
    act,
  });
  return [
    command("New session", "n", "plus", openNew),
    command("All sessions", "page", "back", () => navigate("/")),
    command("Settings", "page", "key", () => navigate("/settings/models")),
    command("Keys", "?", "keyboard", openKeys),
    command("Light or dark", "theme", "moon", nextTheme),
    command("As the system has it", "theme", "sun", () => setTheme("system")),
  ];
}

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
