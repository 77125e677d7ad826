import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { client } from "./api";
import { type Command, commandsAt, matching } from "./commands";
import { isTakenBy } from "./keys";
import { useMayChange } from "./rights";
import type { Page } from "./router";
import { Store, useStore } from "./store";
import { Dialog } from "./ui/dialog";
import { Icon } from "./ui/icon";
import { useLoaded } from "./ui/use";

const isOpen = new Store(false);

export function openPalette(): void {
  isOpen.set(true);
}

export function Palette({ page }: { page: Page }) {
  const open = useStore(isOpen);
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey) || event.altKey) return;
      // A shell kills the rest of a line with it, an editor deletes to its end.
      if (!event.shiftKey && isTakenBy(event)) return;
      event.preventDefault();
      event.stopPropagation();
      isOpen.change((open) => !open);
    };
    addEventListener("keydown", onKey, true);
    return () => removeEventListener("keydown", onKey, true);
  }, []);
  return open ? <Opened page={page} onClose={() => isOpen.set(false)} /> : null;
}

function Opened({ page, onClose }: { page: Page; onClose: () => void }) {
  const [search, setSearch] = useState("");
  const [at, setAt] = useState(0);
  const sessions = useLoaded(() => client.sessions({ limit: 200 }), "palette");
  const isMember = useMayChange();
  const commands = useMemo(
    () => commandsAt(page, sessions.value?.items ?? [], isMember),
    [page, sessions.value, isMember],
  );
  const found = useMemo(() => matching(commands, search).slice(0, 60), [commands, search]);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector(`#command-${at}`)?.scrollIntoView({ block: "nearest" });
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
  const groups = [...new Set(found.map((command) => command.group))];
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
        {groups.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: groups of a list of choices have no element of their own.
          <div key={group} role="group" aria-label={group}>
            <p className="palette-group" aria-hidden="true">
              {group}
            </p>
            {found.map((command, place) =>
              command.group !== group ? null : (
                <div
                  key={`${command.name}-${place}`}
                  id={`command-${place}`}
                  role="option"
                  tabIndex={-1}
                  aria-selected={place === at}
                  onPointerMove={() => setAt(place)}
                  onClick={() => run(command)}
                  onKeyDown={onKey}
                >
                  <Icon name={command.icon} size={14} />
                  <span className="cut grow">{command.name}</span>
                  <span className="muted small cut">{command.hint}</span>
                </div>
              ),
            )}
          </div>
        ))}
        {found.length === 0 ? <p className="muted small tree-note">Nothing is called that.</p> : null}
      </div>
    </Dialog>
  );
}
