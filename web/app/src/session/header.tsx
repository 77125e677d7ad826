import { useState } from "react";
import { client } from "../api";
import { money, repoName, tokens } from "../format";
import { PANELS } from "../panels/panels";
import { Link, navigate } from "../router";
import { costOf } from "../sessions/cost";
import { StatusBadge } from "../ui/badge";
import { complain, tell, unlessUndone } from "../ui/toasts";
import { useMenu } from "../ui/use";
import { useLive } from "./live";
import { isAsleep, isLive } from "./status";

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
      <Sleep />
      <Menu title={title} />
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
  if (draft === null) {
    return (
      <h1 className="cut">
        <button type="button" className="title-button" title="Rename" onClick={() => setDraft(title)}>
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

function Sleep() {
  const live = useLive();
  const [isBusy, setBusy] = useState(false);
  const act = (work: Promise<Parameters<typeof live.took>[0]>) => {
    setBusy(true);
    work
      .then((record) => live.took(record))
      .catch(complain)
      .finally(() => setBusy(false));
  };
  if (isAsleep(live.status)) {
    return (
      <button
        type="button"
        className="button primary small"
        disabled={isBusy}
        onClick={() => act(client.resume(live.id))}
      >
        {isBusy ? "Resuming…" : "Resume"}
      </button>
    );
  }
  return (
    <button
      type="button"
      className="button small"
      disabled={isBusy || !isLive(live.status)}
      onClick={() => act(client.pause(live.id))}
    >
      {isBusy ? "Pausing…" : "Pause"}
    </button>
  );
}

function Menu({ title }: { title: string }) {
  const live = useLive();
  const menu = useMenu();
  const snapshot = () =>
    client.createSnapshot(live.id).then((receipt) => tell(`Snapshot ${receipt.snapshot} taken`), complain);
  const fork = () =>
    client.fork(live.id, { title: `${title} (fork)` }).then((made) => navigate(`/sessions/${made.id}`), complain);
  const stop = () => client.stop(live.id).then((record) => live.took(record), complain);
  const archive = () =>
    client.changeSession(live.id, { archived: true }).then(() => {
      navigate("/");
      tell(`Archived “${title}”`, {
        label: "Undo",
        act: () => void client.changeSession(live.id, { archived: false }).catch(complain),
      });
    }, complain);
  const remove = () => {
    navigate("/");
    unlessUndone(
      `Deleting “${title}”`,
      () => void client.deleteSession(live.id).catch(complain),
      () => navigate(`/sessions/${live.id}`),
    );
  };
  return (
    <details className="menu" ref={menu}>
      <summary className="button small">More</summary>
      <div className="menu-list">
        <button type="button" onClick={snapshot}>
          Take a snapshot
        </button>
        <button type="button" onClick={fork}>
          Fork as it is now
        </button>
        <button type="button" onClick={stop}>
          Stop, keep its files
        </button>
        <button type="button" onClick={archive}>
          Archive
        </button>
        <button type="button" className="danger" onClick={remove}>
          Delete…
        </button>
      </div>
    </details>
  );
}
