import type { v1 } from "@nacre/client";
import { type ReactNode, useState } from "react";
import { client } from "../api";
import { ago, bytes, clock, duration, plural } from "../format";
import { IfMember } from "../rights";
import { Link, navigate } from "../router";
import { useLive } from "../session/live";
import { statusOf } from "../session/status";
import { StatusBadge } from "../ui/badge";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { useEvery, useLoaded, useNow } from "../ui/use";
import { Failed } from "./asleep";

interface Kin {
  session: v1.Session;
  snapshots: v1.SnapshotInfo[];
  forks: Kin[];
}

/** So many levels and sessions of a family are shown. */
const DEPTH = 6;
const MOST = 60;

async function family(id: string): Promise<Kin> {
  let root = await client.session(id);
  for (let level = 0; level < DEPTH && root.parent_id; level += 1) {
    const parent = await client.session(root.parent_id).catch(() => null);
    if (parent === null) break;
    root = parent;
  }
  let left = MOST;
  const grow = async (session: v1.Session, depth: number): Promise<Kin> => {
    left -= 1;
    const snapshots = await client.snapshotsOf(session.id).then((page) => page.items);
    const forks: Kin[] = [];
    if (depth < DEPTH) {
      const page = await client.sessions({ parent: session.id, limit: 50 });
      for (const fork of page.items) {
        if (left > 0) forks.push(await grow(fork, depth + 1));
      }
    }
    return { session, snapshots, forks };
  };
  return grow(root, 0);
}

/** Who came from whom: sessions, their snapshots, and the forks of those. */
export default function SnapshotsPanel() {
  const live = useLive();
  const loaded = useLoaded(() => family(live.id), `family-${live.id}`);
  useEvery(loaded.again, 10_000);
  const now = useNow(30_000);
  const [message, setMessage] = useState("");
  const [isBusy, setBusy] = useState(false);
  const take = () => {
    setBusy(true);
    client
      .createSnapshot(live.id, message.trim() === "" ? {} : { message: message.trim() })
      .then((receipt) => {
        setMessage("");
        tell(`Kept in ${duration(receipt.took_ms)}`);
        loaded.again();
      })
      .catch(complain)
      .finally(() => setBusy(false));
  };
  return (
    <div className="snapshots">
      <IfMember>
        <form
          className="row commit"
          onSubmit={(event) => {
            event.preventDefault();
            take();
          }}
        >
          <input
            className="input"
            aria-label="What the snapshot is for"
            placeholder="What is worth keeping here?"
            value={message}
            onChange={(event) => setMessage(event.target.value)}
          />
          <button type="submit" className="button primary" disabled={isBusy}>
            {isBusy ? "Keeping…" : "Take a snapshot"}
          </button>
        </form>
      </IfMember>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {loaded.value === null ? null : (
        <ul className="kin">
          <KinItem kin={loaded.value} here={live.id} now={now} onChange={loaded.again} />
        </ul>
      )}
    </div>
  );
}

/** A newer server says it; else it is the newest that it has, as long as it has kept nothing itself. */
function cameFrom(fork: v1.Session): string | null {
  const told = (fork as { origin_snapshot_id?: unknown }).origin_snapshot_id;
  return typeof told === "string" ? told : (fork.snapshot_id ?? null);
}

const KINDS: Record<string, string> = {
  disk: "Snapshot",
  base: "Base",
  memory: "Snapshot with memory",
  pause: "Pause",
};

/** What it is called: in the words of whoever took it, or by what it is and when. */
export function nameOf(snapshot: v1.SnapshotInfo): string {
  if (snapshot.message) return snapshot.message;
  const kind = snapshot.recovered ? "Saved from a sandbox that died" : (KINDS[snapshot.kind] ?? snapshot.kind);
  return `${kind}, ${clock(snapshot.created_at)}`;
}

interface KinProps {
  kin: Kin;
  here: string;
  now: number;
  onChange: () => void;
}

function KinItem({ kin, here, now, onChange }: KinProps) {
  const { session } = kin;
  const isHere = session.id === here;
  const loose = kin.forks.filter((fork) => !kin.snapshots.some((one) => one.id === cameFrom(fork.session)));
  return (
    <li>
      <div className="kin-item" data-here={isHere ? "" : undefined}>
        <Icon name={session.parent_id ? "branch" : "command"} size={14} />
        <span className="kin-words">
          <span className="row">
            {isHere ? (
              <strong className="cut">{session.title}</strong>
            ) : (
              <Link to={`/sessions/${session.id}/snapshots`} className="cut">
                {session.title}
              </Link>
            )}
            <StatusBadge status={statusOf(session)} />
          </span>
          <span className="muted small">
            {isHere ? "this session · " : ""}begun {ago(session.created_at, now)}
          </span>
        </span>
        {isHere ? null : (
          <Link className="button small" to={`/compare/${here}/${session.id}`}>
            Compare
          </Link>
        )}
        <ForkButton session={session} snapshot={null} onDone={onChange} />
      </div>
      <ul className="kin">
        {kin.snapshots.map((snapshot) => (
          <SnapshotItem key={snapshot.id} snapshot={snapshot} session={session} now={now} onChange={onChange}>
            {kin.forks
              .filter((fork) => cameFrom(fork.session) === snapshot.id)
              .map((fork) => (
                <KinItem key={fork.session.id} kin={fork} here={here} now={now} onChange={onChange} />
              ))}
          </SnapshotItem>
        ))}
        {loose.map((fork) => (
          <KinItem key={fork.session.id} kin={fork} here={here} now={now} onChange={onChange} />
        ))}
      </ul>
    </li>
  );
}

interface SnapshotProps {
  snapshot: v1.SnapshotInfo;
  session: v1.Session;
  now: number;
  onChange: () => void;
  children: ReactNode;
}

function SnapshotItem({ snapshot, session, now, onChange, children }: SnapshotProps) {
  const facts = [
    ago(snapshot.created_at, now),
    snapshot.bytes == null ? null : bytes(snapshot.bytes),
    snapshot.files == null ? null : plural(snapshot.files, "file"),
    snapshot.took_ms == null ? null : `in ${duration(snapshot.took_ms)}`,
  ].filter((fact) => fact !== null);
  return (
    <li>
      <div className="kin-item kin-snapshot">
        <Icon name="keep" size={14} />
        <span className="kin-words">
          <span className="cut" title={snapshot.id}>
            {nameOf(snapshot)}
          </span>
          <span className="muted small cut">
            {facts.join(" · ")}
            {snapshot.digest ? (
              <>
                {" · "}
                <code title={snapshot.digest}>{snapshot.digest.replace(/^.*:/, "").slice(0, 8)}</code>
              </>
            ) : null}
          </span>
        </span>
        <ForkButton session={session} snapshot={snapshot.id} onDone={onChange} />
      </div>
      <ul className="kin">{children}</ul>
    </li>
  );
}

function ForkButton({
  session,
  snapshot,
  onDone,
}: {
  session: v1.Session;
  snapshot: string | null;
  onDone: () => void;
}) {
  const [isBusy, setBusy] = useState(false);
  const fork = () => {
    setBusy(true);
    client
      .fork(session.id, { title: `${session.title} (fork)`, ...(snapshot === null ? {} : { snapshot_id: snapshot }) })
      .then((made) => {
        onDone();
        tell(`Forked as “${made.title}”`, { label: "Open", act: () => navigate(`/sessions/${made.id}`) });
      })
      .catch(complain)
      .finally(() => setBusy(false));
  };
  return (
    <IfMember>
      <button type="button" className="button small" disabled={isBusy} onClick={fork}>
        {isBusy ? "Forking…" : "Fork"}
      </button>
    </IfMember>
  );
}
