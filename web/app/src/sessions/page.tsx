import type { v1 } from "@nacre/client";
import { useEffect, useMemo, useRef, useState } from "react";
import { client, words } from "../api";
import { ago, money, repoName } from "../format";
import { isTyping } from "../keys";
import { IfMember, mayChange } from "../rights";
import { Link, navigate } from "../router";
import { listed } from "../session/status";
import { SessionBadge } from "../ui/badge";
import { Icon } from "../ui/icon";
import { complain, tell, unlessUndone } from "../ui/toasts";
import { useEvery, useLoaded, useMenu, useNow } from "../ui/use";
import { costOf } from "./cost";
import { openNew } from "./new";

const FILTERS = [
  { name: "all", label: "All" },
  { name: "live", label: "Live" },
  { name: "asleep", label: "Asleep" },
  { name: "archived", label: "Archived" },
] as const;
type Filter = (typeof FILTERS)[number]["name"];

async function everything(isArchived: boolean): Promise<v1.Session[]> {
  const all: v1.Session[] = [];
  let cursor: string | undefined;
  // More than this many are found by their titles.
  for (let page = 0; page < 5; page += 1) {
    const next = await client.sessions({ limit: 200, archived: isArchived, ...(cursor ? { cursor } : {}) });
    all.push(...next.items);
    cursor = next.next_cursor ?? undefined;
    if (cursor === undefined) break;
  }
  return all.sort((one, other) => other.last_active_at.localeCompare(one.last_active_at));
}

export function SessionsPage() {
  const [search, setSearch] = useState("");
  const [filter, setFilter] = useState<Filter>("all");
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const now = useNow(30_000);
  const isArchived = filter === "archived";
  const loaded = useLoaded(() => everything(isArchived), `sessions-${isArchived}`);
  useEvery(loaded.again, 5000);
  useEffect(() => {
    document.title = "Sessions · Nacre";
  }, []);
  const shown = useMemo(
    () => (loaded.value ?? []).filter((session) => !gone.has(session.id) && isWanted(session, filter, search)),
    [loaded.value, gone, filter, search],
  );
  const hide = (id: string, isHidden: boolean) =>
    setGone((old) => {
      const next = new Set(old);
      if (isHidden) next.add(id);
      else next.delete(id);
      return next;
    });
  const list = useRef<HTMLUListElement>(null);
  const step = (by: number) => {
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>("a.session-link") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isTyping(event) || event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("session-search")?.focus();
      } else if (event.key === "j" || event.key === "ArrowDown") {
        event.preventDefault();
        step(1);
      } else if (event.key === "k" || event.key === "ArrowUp") {
        event.preventDefault();
        step(-1);
      } else if (event.key === "n" && mayChange()) {
        event.preventDefault();
        openNew();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  return (
    <main className="page">
      <div className="page-head">
        <h1>Sessions</h1>
        <span className="grow" />
        <IfMember>
          <button type="button" className="button primary" onClick={openNew}>
            New session <kbd>n</kbd>
          </button>
        </IfMember>
      </div>
      <div className="row filters">
        <input
          id="session-search"
          type="search"
          className="input"
          aria-label="Search sessions"
          placeholder="Search by title, repository or id  ( / )"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") {
              event.preventDefault();
              step(1);
            }
          }}
        />
        <fieldset className="segments" aria-label="Which sessions">
          {FILTERS.map((one) => (
            <button key={one.name} type="button" aria-pressed={filter === one.name} onClick={() => setFilter(one.name)}>
              {one.label}
            </button>
          ))}
        </fieldset>
      </div>
      {loaded.error ? (
        <div className="notice" data-tone="bad" role="alert">
          {words(loaded.error)}
        </div>
      ) : null}
      {loaded.value !== null && shown.length === 0 ? (
        <Nothing isFiltered={search !== "" || filter !== "all"} />
      ) : (
        <div className="sessions">
          <div className="session-heads" aria-hidden="true">
            <span>Title</span>
            <span>Repository</span>
            <span>Status</span>
            <span>Model</span>
            <span>Cost</span>
            <span>Active</span>
          </div>
          <ul ref={list}>
            {shown.map((session) => (
              <Item key={session.id} session={session} now={now} onHide={hide} onChange={loaded.again} />
            ))}
          </ul>
        </div>
      )}
    </main>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <div className="empty">No session matches.</div>;
  return (
    <div className="empty">
      <h2>No sessions yet</h2>
      <p>A session is an agent with a machine of its own. Give it a repository and something to do.</p>
      <IfMember>
        <button type="button" className="button primary" onClick={openNew}>
          Start the first one
        </button>
      </IfMember>
    </div>
  );
}

export function isWanted(session: v1.Session, filter: string, search: string): boolean {
  const isLive = ["creating", "resuming", "running", "migrating"].includes(session.client_status);
  if (filter === "live" && !isLive) return false;
  if (filter === "asleep" && isLive) return false;
  const repos = (session.repos ?? []).map((repo) => repo.url ?? "").join(" ");
  const text =
    `${session.title} ${repos} ${session.id} ${session.client_status} ${listed(session).label}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

interface ItemProps {
  session: v1.Session;
  now: number;
  onHide: (id: string, isHidden: boolean) => void;
  onChange: () => void;
}

function Item({ session, now, onHide, onChange }: ItemProps) {
  const repo = session.repos?.[0];
  const cost = costOf(session);
  return (
    <li className="session-item">
      <Link to={`/sessions/${session.id}`} className="session-link">
        <span className="session-title cut">{session.title}</span>
        <span className="session-repo cut muted">
          {session.parent_id ? <Icon name="branch" size={13} /> : null}
          {repo ? `${repoName(repo.url) || "bundle"}${repo.branch ? ` @ ${repo.branch}` : ""}` : "no repository"}
          {session.parent_id ? <span className="visually-hidden"> (a fork)</span> : null}
        </span>
        <span className="session-status">
          <SessionBadge session={session} />
        </span>
        <span className="session-model cut muted">{session.model?.split("/").pop() ?? ""}</span>
        <span className="session-cost muted">{cost === null ? "–" : money(cost)}</span>
        <time className="session-time muted" dateTime={session.last_active_at}>
          {ago(session.last_active_at, now)}
        </time>
      </Link>
      <ItemMenu session={session} onHide={onHide} onChange={onChange} />
    </li>
  );
}

function ItemMenu({ session, onHide, onChange }: Omit<ItemProps, "now">) {
  const menu = useMenu();
  const isArchived = session.archived_at != null;
  const archive = (archived: boolean) => {
    onHide(session.id, true);
    client
      .changeSession(session.id, { archived })
      .then(() => {
        onChange();
        tell(archived ? `Archived “${session.title}”` : `“${session.title}” is back`, {
          label: "Undo",
          act: () => {
            onHide(session.id, false);
            client.changeSession(session.id, { archived: !archived }).then(onChange, complain);
          },
        });
      })
      .catch((error: unknown) => {
        onHide(session.id, false);
        complain(error);
      });
  };
  const remove = () => {
    onHide(session.id, true);
    unlessUndone(
      `Deleting “${session.title}”`,
      () => {
        client.deleteSession(session.id).then(onChange, (error: unknown) => {
          onHide(session.id, false);
          complain(error);
        });
      },
      () => onHide(session.id, false),
    );
  };
  return (
    <details className="menu" ref={menu}>
      <summary className="button quiet small icon" aria-label={`Actions for ${session.title}`}>
        <Icon name="more" />
      </summary>
      <div className="menu-list">
        <button type="button" onClick={() => navigate(`/sessions/${session.id}/snapshots`)}>
          Snapshots and forks
        </button>
        <IfMember>
          <button type="button" onClick={() => archive(!isArchived)}>
            {isArchived ? "Bring back" : "Archive"}
          </button>
          <button type="button" className="danger" onClick={remove}>
            Delete…
          </button>
        </IfMember>
      </div>
    </details>
  );
}
