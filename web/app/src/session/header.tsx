import type { v1 } from "@nacre/client";
import { useState } from "react";
import { client } from "../api";
import { money, repoName, tokens } from "../format";
import { PANELS } from "../panels/panels";
import { IfMember, useMayChange } from "../rights";
import { Link } from "../router";
import { costOf } from "../sessions/cost";
import { StatusBadge } from "../ui/badge";
import { Icon } from "../ui/icon";
import { complain } from "../ui/toasts";
import { useMenu } from "../ui/use";
import { archive, fork, pause, remove, resume, stop, takeSnapshot } from "./deeds";
import { useLive } from "./live";
import { can } from "./status";

interface Props {
  title: string;
  panel: string | null;
  onPanel: (name: string | null) => void;
}

export function Header({ title, panel, onPanel }: Props) {
  const live = useLive();
  const { record, transcript } = live;
  const usage = transcript.usage();
  // The server counts also what no message tells of: titles, attempts that failed.
  const cost = costOf(record) ?? usage.cost_micros;
  const used = usage.input_tokens + usage.cache_read_tokens + usage.output_tokens;
  return (
    <header className="session-head">
      <Title title={title} />
      <StatusBadge status={live.status} />
      {live.line === "offline" ? (
        <span className="badge" data-tone="warn" data-busy="" role="status" title={live.why}>
          Reconnecting
        </span>
      ) : null}
      <span className="facts">
        {(record?.repos ?? []).slice(0, 2).map((repo, at) => (
          <span key={at} className="cut">
            {repoName(repo.url) || "bundle"}
            {repo.branch ? ` @ ${repo.branch}` : ""}
          </span>
        ))}
        {record?.parent_id ? <Link to={`/compare/${record.parent_id}/${live.id}`}>fork of another</Link> : null}
        {used > 0 ? (
          <span title={`${usage.input_tokens} tokens in, ${usage.output_tokens} out`}>{tokens(used)} tokens</span>
        ) : null}
        {cost > 0 ? <span>{money(cost)}</span> : null}
      </span>
      <span className="grow" />
      <Presence />
      <IfMember>
        <Sleep />
        <Menu />
      </IfMember>
      <select
        className="panel-choice"
        aria-label="Panel"
        value={panel ?? ""}
        onChange={(event) => onPanel(event.target.value === "" ? null : event.target.value)}
      >
        <option value="">Conversation</option>
        {PANELS.map((one) => (
          <option key={one.name} value={one.name}>
            {one.label}
          </option>
        ))}
      </select>
      <button
        type="button"
        className="button small panel-toggle"
        aria-expanded={panel !== null}
        onClick={() => onPanel(panel === null ? "terminal" : null)}
      >
        <Icon name="sidebar" size={14} />
        {panel === null ? "Show panels" : "Hide panels"}
      </button>
    </header>
  );
}

function Title({ title }: { title: string }) {
  const live = useLive();
  const [draft, setDraft] = useState<string | null>(null);
  const save = () => {
    const next = draft?.trim() ?? "";
    setDraft(null);
    if (next === "" || next === title) return;
    client.changeSession(live.id, { title: next }).then((record) => live.took(record), complain);
  };
  if (!useMayChange()) return <h1 className="cut">{title}</h1>;
  if (draft === null) {
    return (
      <h1 className="cut">
        <button
          type="button"
          id="session-title"
          className="title-button"
          title="Rename"
          onClick={() => setDraft(title)}
        >
          {title}
        </button>
      </h1>
    );
  }
  return (
    <input
      className="input title-input"
      aria-label="Title"
      // biome-ignore lint/a11y/noAutofocus: somebody has just asked to write here.
      autoFocus
      value={draft}
      onChange={(event) => setDraft(event.target.value)}
      onBlur={save}
      onKeyDown={(event) => {
        if (event.key === "Enter") save();
        if (event.key === "Escape") setDraft(null);
      }}
    />
  );
}

function Presence() {
  const live = useLive();
  const { watchers } = live.transcript;
  const all = watchers.reduce((sum, one) => sum + one.connections, 0);
  if (all < 2) return null;
  const names = watchers.map((one) => (one.connections > 1 ? `${one.name} ×${one.connections}` : one.name)).join(", ");
  return (
    <span className="presence" title={`Watching: ${names}`}>
      {watchers.slice(0, 4).map((one) => (
        <i key={one.id} aria-hidden="true">
          {initials(one.name)}
        </i>
      ))}
      <span>{all} here</span>
      <span className="visually-hidden">: {names}</span>
    </span>
  );
}

function initials(name: string): string {
  return name
    .split(/\s+/)
    .slice(0, 2)
    .map((word) => word[0] ?? "")
    .join("")
    .toUpperCase();
}

/** The one thing that is done most to a session as it is now. */
function Sleep() {
  const live = useLive();
  const [isBusy, setBusy] = useState(false);
  const named = { id: live.id, title: live.title };
  const act = (work: Promise<void>) => {
    setBusy(true);
    void work.finally(() => setBusy(false));
  };
  const took = (record: v1.SessionWithReceipt) => live.took(record);
  if (live.status === "paused" || live.status === "unstarted") {
    const isFirst = live.status === "unstarted";
    return (
      <button type="button" className="button primary small" disabled={isBusy} onClick={() => act(resume(named, took))}>
        <Icon name="play" size={14} />
        {isFirst ? (isBusy ? "Starting…" : "Start") : isBusy ? "Resuming…" : "Resume"}
      </button>
    );
  }
  if (live.status === "stopped") {
    return (
      <button type="button" className="button primary small" disabled={isBusy} onClick={() => act(fork(named))}>
        <Icon name="branch" size={14} />
        {isBusy ? "Forking…" : "Fork"}
      </button>
    );
  }
  if (!can("pause", live.status)) return null;
  return (
    <button type="button" className="button small" disabled={isBusy} onClick={() => act(pause(named, took))}>
      <Icon name="pause" size={14} />
      {isBusy ? "Pausing…" : "Pause"}
    </button>
  );
}

function Menu() {
  const live = useLive();
  const menu = useMenu();
  const { status } = live;
  const named = { id: live.id, title: live.title };
  return (
    <details className="menu" ref={menu}>
      <summary className="button small icon" aria-label="More">
        <Icon name="more" />
      </summary>
      <div className="menu-list">
        {can("snapshot", status) ? (
          <button type="button" onClick={() => takeSnapshot(named)}>
            Take a snapshot
          </button>
        ) : null}
        {can("fork", status) ? (
          <button type="button" onClick={() => fork(named)}>
            Fork as it is now
          </button>
        ) : null}
        {can("stop", status) ? (
          <button type="button" onClick={() => stop(named, (record) => live.took(record))}>
            Stop for good…
          </button>
        ) : null}
        <button type="button" onClick={() => archive(named)}>
          Archive
        </button>
        <button type="button" className="danger" onClick={() => remove(named)}>
          Delete…
        </button>
      </div>
    </details>
  );
}
