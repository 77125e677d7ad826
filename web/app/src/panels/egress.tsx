import type { v1 } from "@nacre/client";
import { client, isStatus } from "../api";
import { ago } from "../format";
import { useLive } from "../session/live";
import { AllowButtons } from "../session/note-row";
import { POLICIES, placeOf, together } from "../session/notes";
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

/** What was blocked, and a way to allow it. */
export default function EgressPanel() {
  const live = useLive();
  const now = useNow(10_000);
  const loaded = useLoaded(
    () => load(live.id),
    `egress-${live.id}-${live.blocked[0]?.at ?? ""}-${live.allowed.length}`,
  );
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
            <Item key={`${one.host}:${one.port}`} blocked={one} now={now} />
          ))}
        </ul>
      )}
    </div>
  );
}

interface ItemProps {
  blocked: v1.EgressBlocked;
  now: number;
}

function Item({ blocked, now }: ItemProps) {
  return (
    <li className="list-item">
      <span className="list-main">
        <code>{placeOf(blocked)}</code>
        <span className="muted small">
          {ago(blocked.at, now)} · {blocked.reason.replaceAll("-", " ")}
          {blocked.untold ? ` · and ${blocked.untold} more times` : ""}
        </span>
      </span>
      <AllowButtons blocked={blocked} />
    </li>
  );
}
