import type { v1 } from "@nacre/client";
import { client, isStatus } from "../api";
import { ago } from "../format";
import { useLive } from "../session/live";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";
import { Failed } from "./asleep";

/** Null: the server does not tell. */
async function load(id: string): Promise<v1.Egress | null> {
  try {
    return await client.egress(id);
  } catch (error) {
    if (isStatus(error, 404, 405)) return null;
    throw error;
  }
}

const POLICIES: Record<string, string> = {
  open: "Every public host may be reached.",
  proxy: "Only what is on the list may be reached.",
  none: "Nothing may be reached, but for models and git.",
};

/** What was blocked, and a way to allow it. */
export default function EgressPanel() {
  const live = useLive();
  const now = useNow(10_000);
  const loaded = useLoaded(() => load(live.id), `egress-${live.id}-${live.blocked[0]?.at ?? ""}`);
  const told = loaded.value;
  const blocked = together(live.blocked, told?.blocked ?? []);
  const allowed = [...(told?.once ?? []).map((pass) => pass.rule), ...(told?.allow ?? [])];
  return (
    <div className="egress">
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {told ? (
        <div className="panel-bar">
          <span>{POLICIES[told.policy] ?? told.policy}</span>{" "}
          {allowed.length > 0 ? (
            <span className="muted">
              Allowed here: {told.once.map((pass) => `${pass.rule} (for a while)`).join(", ")}
              {told.once.length > 0 && told.allow.length > 0 ? ", " : ""}
              {told.allow.join(", ")}
            </span>
          ) : null}
        </div>
      ) : null}
      {blocked.length === 0 ? (
        <div className="empty">
          <p>
            Nothing was blocked. A sandbox reaches only what it is allowed to; what it is refused is shown here, with a
            way to allow it.
          </p>
        </div>
      ) : (
        <ul className="list">
          {blocked.map((one) => (
            <Item
              key={`${one.host}:${one.port}`}
              blocked={one}
              isAllowed={allowed.some((rule) => rule === one.host || rule === `${one.host}:${one.port}`)}
              now={now}
              onChange={loaded.again}
            />
          ))}
        </ul>
      )}
    </div>
  );
}

/** What was heard and what was told, each host and port once. */
export function together(heard: readonly v1.EgressBlocked[], told: readonly v1.EgressBlocked[]): v1.EgressBlocked[] {
  const key = (one: v1.EgressBlocked) => `${one.host}:${one.port}`;
  const known = new Set(heard.map(key));
  return [...heard, ...told.filter((one) => !known.has(key(one)))];
}

interface ItemProps {
  blocked: v1.EgressBlocked;
  isAllowed: boolean;
  now: number;
  onChange: () => void;
}

function Item({ blocked, isAllowed, now, onChange }: ItemProps) {
  const live = useLive();
  const isUsual = blocked.port === 80 || blocked.port === 443;
  const allow = (how: "once" | "always") => {
    const port = isUsual ? {} : { port: blocked.port };
    client.allowEgress(live.id, { host: blocked.host, ...port, allow: how }).then(
      () => {
        tell(`${blocked.host} may be reached ${how === "once" ? "for a while" : "from now on"}`);
        onChange();
      },
      (error: unknown) => {
        if (isStatus(error, 404, 405)) {
          tell("This server cannot allow it for one session: add the host to its own list.");
        } else complain(error);
      },
    );
  };
  return (
    <li className="list-item">
      <span className="list-main">
        <code>
          {blocked.host}
          {isUsual ? "" : `:${blocked.port}`}
        </code>
        <span className="muted small">
          {ago(blocked.at, now)} · {blocked.reason.replaceAll("-", " ")}
          {blocked.untold ? ` · and ${blocked.untold} more times` : ""}
        </span>
      </span>
      {isAllowed ? (
        <span className="badge" data-tone="good">
          allowed
        </span>
      ) : blocked.can_allow === false ? (
        <span className="muted small">never allowed</span>
      ) : (
        <>
          <button type="button" className="button small" onClick={() => allow("once")}>
            Allow once
          </button>
          <button type="button" className="button small" onClick={() => allow("always")}>
            Always
          </button>
        </>
      )}
    </li>
  );
}
