import { client, isStatus } from "../api";
import { ago } from "../format";
import { type Blocked, useLive } from "../session/live";
import { complain, tell } from "../ui/toasts";
import { useNow } from "../ui/use";

export default function EgressPanel() {
  const live = useLive();
  const now = useNow(10_000);
  if (live.blocked.length === 0) {
    return (
      <div className="empty">
        <p>
          Nothing was blocked while this page was open. A sandbox reaches only what it is allowed to; what it is refused
          is shown here, with a way to allow it.
        </p>
      </div>
    );
  }
  return (
    <ul className="list">
      {live.blocked.map((one) => (
        <Item key={one.host} blocked={one} now={now} />
      ))}
    </ul>
  );
}

function Item({ blocked, now }: { blocked: Blocked; now: number }) {
  const live = useLive();
  const allow = (how: "once" | "always") => {
    client.allowEgress(live.id, blocked.host, how).then(
      () => live.markAllowed(blocked.host, how),
      (error: unknown) => {
        if (isStatus(error, 404, 405)) {
          tell("This server cannot allow it for one session yet: add the host to its allowlist.");
        } else complain(error);
      },
    );
  };
  return (
    <li className="list-item">
      <span className="list-main">
        <code>
          {blocked.host}
          {blocked.port === null ? "" : `:${blocked.port}`}
        </code>
        <span className="muted small">
          {blocked.count > 1 ? `${blocked.count} times, ` : ""}
          {ago(blocked.at, now)}
          {blocked.reason ? ` · ${blocked.reason}` : ""}
        </span>
      </span>
      {blocked.allowed === null ? (
        <>
          <button type="button" className="button small" onClick={() => allow("once")}>
            Allow once
          </button>
          <button type="button" className="button small" onClick={() => allow("always")}>
            Always
          </button>
        </>
      ) : (
        <span className="badge" data-tone="good">
          allowed {blocked.allowed}
        </span>
      )}
    </li>
  );
}
