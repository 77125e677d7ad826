import type { v1 } from "@nacre/client";
import { client, isStatus } from "../api";
import { useMayChange } from "../rights";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { useLive } from "./live";
import { isAllowed, type Note, placeOf } from "./notes";

export function NoteRow({ note }: { note: Note }) {
  switch (note.kind) {
    case "switch":
      return (
        <p className="system-row">
          Model changed from <code>{note.from}</code> to <code>{note.to}</code>: {note.reason}
        </p>
      );
    case "decided":
      return (
        <p className="system-row">
          {DECIDED[note.status] ?? note.status}: {note.what}
          {note.message ? ` (${note.message})` : ""}
        </p>
      );
    case "forked":
      return (
        <p className="system-row fork-row">Forked here: what is above was said in the session that it came from</p>
      );
    case "blocked":
      return <BlockedRow blocked={note.blocked} />;
  }
}

const DECIDED: Record<string, string> = {
  approved: "Approved",
  completed: "Approved and done",
  denied: "Denied",
  failed: "Approved, and failed",
  expired: "Nobody answered in time",
};

/** A host that the sandbox was refused, and what can be done about it, where it happened. */
function BlockedRow({ blocked }: { blocked: v1.EgressBlocked }) {
  return (
    <div className="blocked-row">
      <Icon name="shield" />
      <span className="grow">
        Blocked: <code>{placeOf(blocked)}</code>
      </span>
      <AllowButtons blocked={blocked} />
    </div>
  );
}

/** Once, always, or why not. */
export function AllowButtons({ blocked }: { blocked: v1.EgressBlocked }) {
  const live = useLive();
  const isMember = useMayChange();
  if (isAllowed(blocked, live.allowed)) {
    return (
      <span className="badge" data-tone="good">
        allowed
      </span>
    );
  }
  if (blocked.can_allow === false) return <span className="muted small">never allowed</span>;
  if (!isMember) return null;
  const allow = (how: "once" | "always") => {
    const isUsual = blocked.port === 80 || blocked.port === 443;
    const port = isUsual ? {} : { port: blocked.port };
    client.allowEgress(live.id, { host: blocked.host, ...port, allow: how }).then(
      () => {
        tell(`${blocked.host} may be reached ${how === "once" ? "for five minutes" : "from now on"}: try again`);
        void live.learnEgress();
      },
      (error: unknown) => {
        if (isStatus(error, 404, 405)) {
          tell("This server cannot allow it for one session: add the host to its own list.");
        } else complain(error);
      },
    );
  };
  return (
    <>
      <button type="button" className="button small" onClick={() => allow("once")}>
        Allow once
      </button>
      <button type="button" className="button small" onClick={() => allow("always")}>
        Always
      </button>
    </>
  );
}
