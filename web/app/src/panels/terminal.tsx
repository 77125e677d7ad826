import { useEffect, useRef, useState } from "react";
import { caller, client } from "../api";
import { useLive } from "../session/live";
import { useStore } from "../store";
import { WhenAwake } from "./asleep";
import type { Screen, ScreenState } from "./screen";

export default function TerminalPanel() {
  const who = useStore(caller);
  if (who?.role === "viewer") {
    return (
      <div className="empty">
        <p>Whoever may only look has no keyboard here.</p>
      </div>
    );
  }
  return (
    <WhenAwake what="A terminal">
      <Terminals />
    </WhenAwake>
  );
}

/** Terminals live in the sandbox: a tab that is opened again finds what was left there. */
function Terminals() {
  const live = useLive();
  const key = `nacre-terminals-${live.id}`;
  const [names, setNames] = useState<string[]>(() => kept(key));
  const [open, setOpen] = useState(names[0] ?? "main");
  const change = (next: string[]) => {
    setNames(next);
    sessionStorage.setItem(key, JSON.stringify(next));
  };
  const add = () => {
    const free = Array.from({ length: 16 }, (_, at) => `${at + 2}`).find((name) => !names.includes(name));
    if (free === undefined) return;
    change([...names, free]);
    setOpen(free);
  };
  const shut = (name: string) => {
    const next = names.filter((other) => other !== name);
    change(next.length === 0 ? ["main"] : next);
    if (open === name) setOpen(next[0] ?? "main");
  };
  return (
    <div className="terminal-panel">
      <div className="row sub-tabs">
        {names.map((name) => (
          <span key={name} className="sub-tab" data-open={name === open ? "" : undefined}>
            <button type="button" aria-pressed={name === open} onClick={() => setOpen(name)}>
              {name === "main" ? "main" : `shell ${name}`}
            </button>
            {names.length > 1 ? (
              <button type="button" aria-label={`Close tab ${name}`} onClick={() => shut(name)}>
                ×
              </button>
            ) : null}
          </span>
        ))}
        <button type="button" className="button quiet small icon" aria-label="New terminal" onClick={add}>
          +
        </button>
      </div>
      <Shell key={open} name={open} />
    </div>
  );
}

function Shell({ name }: { name: string }) {
  const live = useLive();
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<{ state: ScreenState; code: number | null }>({ state: "connecting", code: null });
  const [round, setRound] = useState(0);
  const id = live.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` is how it is started again.
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let screen: Screen | null = null;
    let isGone = false;
    const address = (columns: number, rows: number) => {
      const url = client.http.at(["v1", "sessions", id, "terminal"], { name, columns, rows });
      url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
      return url.href;
    };
    void import("./screen").then(({ openScreen }) => {
      if (isGone) return;
      screen = openScreen(element, address, (state, code) => setState({ state, code }));
      screen.focus();
    });
    return () => {
      isGone = true;
      screen?.dispose();
    };
  }, [id, name, round]);
  return (
    <>
      {state.state === "lost" ? (
        <div className="notice" data-tone="warn" role="status">
          The line to the terminal is lost; it comes back by itself.
        </div>
      ) : null}
      {state.state === "ended" ? (
        <div className="notice" role="status">
          <span>The shell ended{state.code === null ? "" : ` with ${state.code}`}.</span>
          <button type="button" className="button small" onClick={() => setRound(round + 1)}>
            New shell
          </button>
        </div>
      ) : null}
      <div className="screen" ref={place} data-state={state.state} />
    </>
  );
}

function kept(key: string): string[] {
  try {
    const value: unknown = JSON.parse(sessionStorage.getItem(key) ?? "");
    if (Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === "string")) return value;
  } catch {
    // Then it begins anew.
  }
  return ["main"];
}
