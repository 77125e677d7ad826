import { useEffect, useRef, useState } from "react";
import { client } from "../api";
import { useMayChange } from "../rights";
import { useLive } from "../session/live";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { WhenAwake } from "./asleep";
import type { Screen, ScreenState } from "./screen";
import { newTerminal, openTab, showTabs, shutTab, tabs } from "./terminal-tabs";

export default function TerminalPanel() {
  const isMember = useMayChange();
  if (!isMember) {
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

function Terminals() {
  const live = useLive();
  useEffect(() => showTabs(live.id), [live.id]);
  const { session, names, open } = useStore(tabs);
  if (session !== live.id) return null;
  return (
    <div className="terminal-panel">
      <div className="row sub-tabs">
        {names.map((name) => (
          <span key={name} className="sub-tab" data-open={name === open ? "" : undefined}>
            <button type="button" aria-pressed={name === open} onClick={() => openTab(name)}>
              {/^\d+$/.test(name) ? `shell ${name}` : name}
            </button>
            {names.length > 1 ? (
              <button type="button" aria-label={`End ${name}`} title="Ends its shell" onClick={() => shutTab(name)}>
                <Icon name="close" size={11} />
              </button>
            ) : null}
          </span>
        ))}
        <button
          type="button"
          className="button quiet small icon"
          aria-label="New terminal"
          onClick={() => newTerminal(live.id)}
        >
          <Icon name="plus" size={14} />
        </button>
        <span className="grow" />
        <span className="muted tiny hint">
          <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>X</kbd> leaves it
        </span>
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
