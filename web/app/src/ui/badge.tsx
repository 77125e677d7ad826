import type { v1 } from "@nacre/client";
import { agentState, shown, statusOf } from "../session/status";

export function StatusBadge({ status }: { status: string }) {
  const { label, tone, isBusy } = shown(status);
  return (
    <span className="badge" data-tone={tone} data-busy={isBusy ? "" : undefined}>
      {label}
    </span>
  );
}

const AGENTS = {
  working: { label: "Working", tone: "good", isBusy: true },
  waiting: { label: "Waits for you", tone: "warn", isBusy: false },
  idle: { label: "Idle", tone: "plain", isBusy: false },
};

/** Of one that runs, what its agent does, where the server says so. */
export function SessionBadge({ session }: { session: v1.Session }) {
  const state = session.client_status === "running" ? agentState(session) : null;
  if (state === null) return <StatusBadge status={statusOf(session)} />;
  const { label, tone, isBusy } = AGENTS[state];
  return (
    <span className="badge" data-tone={tone} data-busy={isBusy ? "" : undefined} title="Running">
      {label}
    </span>
  );
}
