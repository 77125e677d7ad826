import type { ReactNode } from "react";
import { client, isCode, words } from "../api";
import { useLive } from "../session/live";
import { isAsleep } from "../session/status";
import { complain } from "../ui/toasts";

/** Panels that look into a sandbox need one that runs. */
export function WhenAwake({ what, children }: { what: string; children: ReactNode }) {
  const live = useLive();
  if (!isAsleep(live.status)) return <>{children}</>;
  return (
    <div className="empty">
      <p>{what} needs the sandbox, and it is asleep.</p>
      <button
        type="button"
        className="button primary"
        onClick={() => client.resume(live.id).then((record) => live.took(record), complain)}
      >
        Resume
      </button>
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
