import type { v1 } from "@nacre/client";
import { client } from "../api";
import { ago, bytes, duration, plural } from "../format";
import { IfMember } from "../rights";
import { complain } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";
import { fork } from "./deeds";
import { useLive } from "./live";
import { adviceFor, can, explained, isAsleep, joinedPhases, phaseName, phaseTime, resumingFrom } from "./status";

/** What is true of the session beyond one word. */
export function Banner() {
  const live = useLive();
  const now = useNow(30_000);
  const { record, transcript, status } = live;
  if (status === "creating" || status === "resuming") return <Starting />;
  if (record === null) return null;
  const text = explained(record, transcript.status, now);
  if (text === null) return null;
  const act = (work: Promise<Parameters<typeof live.took>[0]>) => work.then((next) => live.took(next), complain);
  return (
    <div className="notice" data-tone={TONES[status]} role="status">
      <span>{text}</span>
      {isAsleep(status) ? <Receipt now={now} /> : null}
      <IfMember>
        {can("recover", status) ? (
          <button type="button" className="button small" onClick={() => act(client.recover(live.id))}>
            Go on with what was kept
          </button>
        ) : null}
        {status === "stopped" ? (
          <button type="button" className="button small" onClick={() => fork({ id: live.id, title: record.title })}>
            Fork from its last snapshot
          </button>
        ) : null}
      </IfMember>
      {status === "error" ? <Failed error={text} onAgain={() => act(client.resume(live.id))} /> : null}
    </div>
  );
}

const TONES: Record<string, string | undefined> = {
  error: "bad",
  degraded: "warn",
  suspended: "warn",
  migrating: "info",
};

function Failed({ error, onAgain }: { error: string; onAgain: () => void }) {
  const live = useLive();
  const advice = adviceFor(error, live.id);
  return (
    <>
      <span>
        {advice.text} {advice.command === null ? null : <code>{advice.command}</code>}
      </span>
      <IfMember>
        {advice.canRetry ? (
          <button type="button" className="button small" onClick={onAgain}>
            Try again
          </button>
        ) : null}
      </IfMember>
    </>
  );
}

/** A snapshot so shortly before a pause is that pause's own. */
const TOGETHER_MS = 120_000;

/** What was kept when it went to sleep. After a reload, the newest snapshot tells. */
function Receipt({ now }: { now: number }) {
  const live = useLive();
  const { record } = live;
  const asked = `receipt-${live.id}-${record?.snapshot_id ?? ""}-${record?.paused_at ?? ""}`;
  const newest = useLoaded(
    () => client.snapshotsOf(live.id, { limit: 1 }).then((page) => page.items[0] ?? null),
    asked,
  );
  if (live.receipt !== null) return <span className="muted">Kept: {facts(live.receipt)}</span>;
  if (newest.value === null) return null;
  const sleptAt = Date.parse(record?.paused_at ?? record?.ended_at ?? "");
  const isItsOwn = Math.abs(sleptAt - Date.parse(newest.value.created_at)) < TOGETHER_MS;
  return (
    <span className="muted" title={newest.value.id}>
      {isItsOwn ? "Kept" : `Newest snapshot, ${ago(newest.value.created_at, now)}`}: {facts(newest.value)}
    </span>
  );
}

function facts(receipt: v1.Receipt): string {
  return [
    receipt.kept === "memory" ? "memory and disk" : "disk",
    receipt.bytes == null ? null : bytes(receipt.bytes),
    receipt.files == null ? null : plural(receipt.files, "file"),
    receipt.digest ? receipt.digest.replace(/^.*:/, "").slice(0, 12) : null,
    receipt.took_ms == null ? null : `in ${duration(receipt.took_ms)}`,
  ]
    .filter((fact) => fact !== null)
    .join(" · ");
}

function Starting() {
  const live = useLive();
  const phases = live.hasHeardStart ? live.phases : joinedPhases(live.record?.phases ?? [], live.phases);
  return (
    <div className="notice" data-tone="info" role="status">
      <span>{live.status === "resuming" ? resumingFrom(live.keptAs) : "Creating its sandbox"}</span>
      <ol className="phases">
        {phases.map((phase) => (
          <li key={phase.name} data-state={phase.state} title={phase.detail}>
            {phaseName(phase.name)} <span className="muted">{phaseTime(phase)}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
