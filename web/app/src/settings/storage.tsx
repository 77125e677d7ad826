import type { v1 } from "@nacre/client";
import { client } from "../api";
import { ago, bytes } from "../format";
import { Failed } from "../panels/asleep";
import { Link } from "../router";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";

/** What was kept of sessions, and how much it takes. */
export function Storage() {
  const loaded = useLoaded(() => client.snapshots({ limit: 200 }), "snapshots");
  const now = useNow(60_000);
  const items = loaded.value?.items ?? [];
  const sum = items.reduce((all, one) => all + (one.bytes ?? 0), 0);
  const remove = (one: v1.SnapshotInfo) =>
    client.http.done({ method: "DELETE", path: ["v1", "snapshots", one.id] }).then(() => {
      tell("The snapshot is gone");
      loaded.again();
    }, complain);
  return (
    <>
      <h1>Storage</h1>
      <p className="muted">
        {items.length} snapshots{sum > 0 ? `, ${bytes(sum)} before what they share` : ""}.{" "}
        <code>nacre storage usage</code> on the server tells of the whole disk.
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {items.map((one) => (
          <li key={one.id} className="list-item">
            <span className="list-main">
              <span className="cut mono">{one.message || one.id.split(":").pop()}</span>
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
            <button type="button" className="button small danger" onClick={() => void remove(one)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
