import { type ReactNode, useState } from "react";
import { isCode, words } from "../api";
import { IfMember } from "../rights";
import { fork, resume } from "../session/deeds";
import { useLive } from "../session/live";
import { isAsleep } from "../session/status";

const WHY: Record<string, string> = {
  unstarted: "and it was not started yet",
  paused: "and it is asleep",
  suspended: "and it is on hold",
  stopped: "and it has ended for good",
};

/** Panels that look into a sandbox need one that runs. */
export function WhenAwake({ what, children }: { what: string; children: ReactNode }) {
  const live = useLive();
  const [isBusy, setBusy] = useState(false);
  if (!isAsleep(live.status) && live.status !== "unstarted") return <>{children}</>;
  const named = { id: live.id, title: live.title };
  const act = (work: Promise<void>) => {
    setBusy(true);
    void work.finally(() => setBusy(false));
  };
  return (
    <div className="empty">
      <p>
        {what} needs the sandbox, {WHY[live.status]}.
      </p>
      <IfMember>
        {live.status === "paused" || live.status === "unstarted" ? (
          <button
            type="button"
            className="button primary"
            disabled={isBusy}
            onClick={() => act(resume(named, (record) => live.took(record)))}
          >
            {isBusy ? "Starting…" : live.status === "paused" ? "Resume" : "Start"}
          </button>
        ) : null}
        {live.status === "stopped" ? (
          <button type="button" className="button primary" disabled={isBusy} onClick={() => act(fork(named))}>
            {isBusy ? "Forking…" : "Fork"}
          </button>
        ) : null}
      </IfMember>
    </div>
  );
}

export function Failed({ error, onAgain }: { error: unknown; onAgain?: () => void }) {
  const isStarting = isCode(error, "not-running", "session-waking", "starting");
  return (
    <div className="notice" data-tone={isStarting ? "info" : "bad"} role="alert">
      <span>{words(error)}</span>
      {onAgain ? (
        <button type="button" className="button small" onClick={onAgain}>
          Try again
        </button>
      ) : null}
    </div>
  );
}
