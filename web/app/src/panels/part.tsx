import type { ReactNode } from "react";
import { useLive } from "../session/live";

interface Props {
  /** As its start calls it. */
  phase: string;
  children: ReactNode;
}

/** A part that a sandbox may lack: its start says so. */
export function IfInstalled({ phase, children }: Props) {
  const live = useLive();
  const told = live.phases.find((one) => one.name === phase) ?? live.record?.phases?.find((one) => one.name === phase);
  if (told?.state !== "failed") return <>{children}</>;
  const isMissing = told.detail?.endsWith("is not installed") ?? false;
  return (
    <div className="empty">
      <h2>{isMissing ? `This base has no ${phase}` : `The ${phase} could not be started`}</h2>
      <p className="muted">{told.detail ?? ""}</p>
      <p>
        The full base has one: <code>nacre base build</code> on the server's machine, then a new session.
      </p>
    </div>
  );
}
