import { useEffect, useMemo, useRef } from "react";
import { words } from "../api";
import { Panels, panelAt } from "../panels/panels";
import { navigate } from "../router";
import { Asked } from "./asked";
import { Banner } from "./banner";
import { Composer } from "./composer";
import { Header } from "./header";
import { RowList } from "./list";
import { LiveContext, useFollowed, useLive } from "./live";
import { RowView } from "./row";
import { rowsOf } from "./rows";
import { Split } from "./split";
import { isWorking } from "./working";

export function SessionPage({ id, panel }: { id: string; panel: string | null }) {
  const live = useFollowed(id);
  if (live === null) return null;
  return (
    <LiveContext value={live}>
      <Session panel={panel} />
    </LiveContext>
  );
}

function Session({ panel }: { panel: string | null }) {
  const live = useLive();
  const { title } = live;
  useEffect(() => {
    document.title = `${title} · Nacre`;
  }, [title]);
  const open = panelAt(panel);
  const choose = (name: string | null) => navigate(`/sessions/${live.id}${name === null ? "" : `/${name}`}`);
  if (live.refused !== null) {
    return (
      <main className="empty">
        <h1>This session cannot be shown</h1>
        <p>{words(live.refused)}</p>
        <button type="button" className="button" onClick={() => navigate("/")}>
          All sessions
        </button>
      </main>
    );
  }
  return (
    <main className="session">
      <Header title={title} panel={open?.name ?? null} onPanel={choose} />
      <Banner />
      <Split isOpen={open !== null} side={<Panels open={open} onChoose={choose} />}>
        <Conversation />
      </Split>
    </main>
  );
}

function Conversation() {
  const live = useLive();
  const { transcript, notes } = live;
  const rows = useMemo(() => rowsOf(transcript, notes), [transcript, transcript.version, notes]);
  const older = useRef(() => {});
  older.current = () => void live.loadOlder();
  const onTop = useRef(() => older.current()).current;
  return (
    <section className="conversation" aria-label="Conversation">
      <RowList rows={rows} onTop={onTop} draw={(row) => <RowView row={row} />}>
        {rows.length === 0 && live.line === "online" ? (
          <div className="empty first">
            <p>
              {live.record?.parent_id
                ? "A fork: it has the files of the session that it came from, and a conversation of its own."
                : "Nothing was said yet. Ask for something: the agent has a machine of its own to do it on."}
            </p>
          </div>
        ) : null}
        <Unsent />
        <Asked />
        <Doing />
      </RowList>
      <Composer />
    </section>
  );
}

/** What was said while there was no line, until the server has it. */
function Unsent() {
  const live = useLive();
  return (
    <>
      {[...live.unsent].map(([id, content]) => (
        <div key={id} className="said" data-queued="">
          <div className="said-head">
            <span className="badge" data-tone="warn" data-busy="">
              {live.line === "online" ? "sending" : "waits for the connection"}
            </span>
          </div>
          <div className="said-text">{content}</div>
        </div>
      ))}
    </>
  );
}

const DOING: Record<string, string> = {
  thinking: "Thinking",
  tool_calling: "Using a tool",
  streaming: "Answering",
  waiting: "Waiting for you",
};

function Doing() {
  const live = useLive();
  const busy = Object.entries(live.transcript.agents).filter(([channel, one]) => channel !== "" && one.status in DOING);
  const isSilent = busy.length === 0 && isWorking(live.transcript);
  return (
    <div className="doing" role="status">
      {isSilent ? (
        <span>
          <i aria-hidden="true" /> Working
        </span>
      ) : null}
      {busy.map(([channel, one]) => (
        <span key={channel}>
          <i aria-hidden="true" /> {DOING[one.status]}
          {one.detail ? ` (${one.detail})` : ""}
        </span>
      ))}
    </div>
  );
}
