import type { ReactNode } from "react";
import { useLive } from "../session/live";

/** A part that a sandbox may lack: its start says so. */
export function IfInstalled({ phase, hint, children }: { phase: string; hint: string; children: ReactNode }) {
  const live = useLive();
  const told = live.phases.find((one) => one.name === phase) ?? live.record?.phases?.find((one) => one.name === phase);
  if (told?.state !== "failed") return <>{children}</>;
  return (
    <div className="empty">
      <p>
        {told.detail ?? "It could not be started"}. {hint}
      </p>
    </div>
  );
}
