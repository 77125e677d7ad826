import type { v1 } from "@nacre/client";
import { client } from "../api";
import { ago, bytes, plural } from "../format";
import { Failed } from "../panels/asleep";
import { Link } from "../router";
import { isSure } from "../ui/confirm";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";
import { useRoute } from "./routes";
import { readUsed } from "./told";

/** What was kept of sessions, and how much it takes. */
export function Storage() {
  const hasUsage = useRoute("get", "/v1/storage");
  const hasSnapshots = useRoute("get", "/v1/snapshots");
  return (
    <>
      <h1>Storage</h1>
      {hasUsage ? <Usage /> : null}
      {hasSnapshots ? <Snapshots /> : null}
    </>
  );
}

function Usage() {
  const loaded = useLoaded(
    async () => readUsed(await client.http.answer<unknown>({ method: "GET", path: ["v1", "storage"] })),
    "storage",
  );
  if (loaded.error) return <Failed error={loaded.error} onAgain={loaded.again} />;
  if (loaded.value === null) return <p className="muted small">Counting…</p>;
  const { parts, total, free } = loaded.value;
  const most = Math.max(1, ...parts.map((part) => part.bytes));
  return (
    <section className="card">
      <div className="row">
        <h2 className="grow">{bytes(total)} in use</h2>
        {free === null ? null : <span className="muted small">{bytes(free)} free</span>}
      </div>
      <ul className="usage">
        {parts.map((part) => (
          <li key={part.name}>
            <span>{part.name}</span>
            <span className="phase-track">
              <i style={{ width: `${(part.bytes / most) * 100}%` }} />
            </span>
            <span className="muted">{bytes(part.bytes)}</span>
          </li>
        ))}
      </ul>
      <p className="muted small">
        <code>nacre storage gc</code> on the server's machine gives back what nothing needs.
      </p>
    </section>
  );
}

function Snapshots() {
  const loaded = useLoaded(() => client.snapshots({ limit: 200 }), "snapshots");
  const now = useNow(60_000);
  const items = loaded.value?.items ?? [];
  const sum = items.reduce((all, one) => all + (one.bytes ?? 0), 0);
  const remove = async (one: v1.SnapshotInfo) => {
    const sure = await isSure({
      title: "Delete this snapshot?",
      text: "No fork can be made from it any more. Nothing brings it back.",
      deed: "Delete",
    });
    if (!sure) return;
    await client.http.done({ method: "DELETE", path: ["v1", "snapshots", one.id] });
    tell("The snapshot is gone");
    loaded.again();
  };
  return (
    <>
      <p className="muted">
        {plural(items.length, "snapshot")}
        {sum > 0 ? `, ${bytes(sum)} before what they share` : ""}.
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {items.map((one) => (
          <li key={one.id} className="list-item">
            <span className="list-main" title={one.id}>
              <span className="cut">{one.message || `Snapshot of ${ago(one.created_at, now)}`}</span>
              <span className="muted small">
                {one.kind} · {one.bytes == null ? "not measured yet" : bytes(one.bytes)} · {ago(one.created_at, now)}
                {one.session_id ? (
                  <>
                    {" · "}
                    <Link to={`/sessions/${one.session_id}/snapshots`}>its session</Link>
                  </>
                ) : null}
              </span>
            </span>
            <button type="button" className="button small danger" onClick={() => void remove(one).catch(complain)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
