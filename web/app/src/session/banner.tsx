import { client } from "../api";
import { bytes, duration } from "../format";
import { complain } from "../ui/toasts";
import { useLive } from "./live";
import { explained, isAsleep, phaseName, phaseTime, resumingFrom } from "./status";

/** What is true of the session beyond one word. */
export function Banner() {
  const live = useLive();
  const { record, transcript, status } = live;
  if (status === "creating" || status === "resuming") return <Starting />;
  if (record === null) return null;
  const text = explained(record, transcript.status);
  if (text === null) return null;
  const act = (work: Promise<Parameters<typeof live.took>[0]>) => work.then((next) => live.took(next), complain);
  const tone = status === "error" ? "bad" : status === "degraded" ? "warn" : "info";
  return (
    <div className="notice" data-tone={isAsleep(status) ? undefined : tone} role="status">
      <span>{text}</span>
      {isAsleep(status) && live.receipt ? <Receipt /> : null}
      {status === "degraded" ? (
        <button type="button" className="button small" onClick={() => act(client.recover(live.id))}>
          Go on with what was kept
        </button>
      ) : null}
      {status === "error" ? (
        <button type="button" className="button small" onClick={() => act(client.resume(live.id))}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

function Receipt() {
  const live = useLive();
  const receipt = live.receipt;
  if (receipt === null) return null;
  return (
    <span className="muted mono">
      {receipt.snapshot} · {receipt.kept}
      {receipt.bytes ? ` · ${bytes(receipt.bytes)}` : ""}
      {receipt.took_ms ? ` · took ${duration(receipt.took_ms)}` : ""}
    </span>
  );
}

function Starting() {
  const live = useLive();
  return (
    <div className="notice" data-tone="info" role="status">
      <span>{live.status === "resuming" ? resumingFrom(live.sleptAs) : "Creating its sandbox"}</span>
      <ol className="phases">
        {live.phases.map((phase) => (
          <li key={phase.name} data-state={phase.state} title={phase.detail}>
            {phaseName(phase.name)} <span className="muted">{phaseTime(phase)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
