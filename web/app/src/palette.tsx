import type { v1 } from "@nacre/client";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { client } from "./api";
import { repoName } from "./format";
import { PANELS } from "./panels/panels";
import { navigate, type pageAt } from "./router";
import { openNew } from "./sessions/new";
import { Store, useStore } from "./store";
import { nextTheme, setTheme } from "./theme";
import { Dialog } from "./ui/dialog";
import { complain, tell } from "./ui/toasts";
import { useLoaded } from "./ui/use";

const isOpen = new Store(false);

export function openPalette(): void {
  isOpen.set(true);
}

interface Command {
  name: string;
  hint: string;
  act: () => void;
}

type Place = ReturnType<typeof pageAt>;

export function Palette({ page }: { page: Place }) {
  const open = useStore(isOpen);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key.toLowerCase() === "k" && (event.metaKey || event.ctrlKey)) {
        event.preventDefault();
        isOpen.change((open) => !open);
      }
    };
    addEventListener("keydown", onKey, true);
    return () => removeEventListener("keydown", onKey, true);
  }, []);
  return open ? <Opened page={page} onClose={() => isOpen.set(false)} /> : null;
}

function Opened({ page, onClose }: { page: Place; onClose: () => void }) {
  const [search, setSearch] = useState("");
  const [at, setAt] = useState(0);
  const sessions = useLoaded(() => client.sessions({ limit: 200 }), "palette");
  const commands = useMemo(() => all(page, sessions.value?.items ?? []), [page, sessions.value]);
  const found = useMemo(() => matching(commands, search).slice(0, 50), [commands, search]);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    command.act();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setAt((at + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[at]);
    }
  };
  return (
    <Dialog label="Commands" onClose={onClose} className="palette">
      <input
        className="palette-input"
        role="combobox"
        aria-label="Search commands and sessions"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found[at] ? `command-${at}` : undefined}
        placeholder="Go to a session, open a panel, do something…"
        autoFocus
        value={search}
        onChange={(event) => {
          setSearch(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <div className="palette-list" id="palette-list" role="listbox" aria-label="Commands" ref={list}>
        {found.map((command, place) => (
          <div
            key={`${command.name}-${command.hint}`}
            id={`command-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === at}
            onPointerMove={() => setAt(place)}
            onClick={() => run(command)}
            onKeyDown={onKey}
          >
            <span className="cut">{command.name}</span>
            <span className="muted small cut">{command.hint}</span>
          </div>
        ))}
        {found.length === 0 ? <p className="muted small tree-note">Nothing is called that.</p> : null}
      </div>
    </Dialog>
  );
}

/** Every word of the search is somewhere in it; what begins with it comes first. */
export function matching<T extends { name: string; hint: string }>(commands: readonly T[], search: string): T[] {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const found = commands.filter((command) => {
    const text = `${command.name} ${command.hint}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const rank = (command: T) => (command.name.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  return found.sort((one, other) => rank(one) - rank(other));
}

function all(page: Place, sessions: v1.Session[]): Command[] {
  const here = page.page === "session" ? page.id : null;
  const ofSession: Command[] =
    here === null
      ? []
      : [
          ...PANELS.map((panel) => ({
            name: panel.label,
            hint: "panel",
            act: () => navigate(`/sessions/${here}/${panel.name}`),
          })),
          { name: "Hide panels", hint: "panel", act: () => navigate(`/sessions/${here}`) },
          { name: "Write to the agent", hint: "session", act: () => document.getElementById("composer")?.focus() },
          { name: "Cancel the turn", hint: "session", act: () => void client.cancel(here).catch(complain) },
          { name: "Pause", hint: "session", act: () => void client.pause(here).catch(complain) },
          { name: "Resume", hint: "session", act: () => void client.resume(here).catch(complain) },
          {
            name: "Take a snapshot",
            hint: "session",
            act: () => void client.createSnapshot(here).then((one) => tell(`Kept as ${one.snapshot}`), complain),
          },
          {
            name: "Fork",
            hint: "session",
            act: () => void client.fork(here).then((made) => navigate(`/sessions/${made.id}`), complain),
          },
        ];
  return [
    ...ofSession,
    { name: "New session", hint: "n", act: openNew },
    { name: "All sessions", hint: "page", act: () => navigate("/") },
    { name: "Settings", hint: "page", act: () => navigate("/settings/models") },
    { name: "Light or dark", hint: "theme", act: nextTheme },
    { name: "As the system has it", hint: "theme", act: () => setTheme("system") },
    ...sessions.map((session) => ({
      name: session.title,
      hint: `${session.client_status} ${repoName(session.repos?.[0]?.url)} ${session.id.slice(-6)}`,
      act: () => navigate(`/sessions/${session.id}`),
    })),
  ];
}
