import type { v1 } from "@nacre/client";
import { listed, shown, statusOf, type Tone } from "../session/status";

export function StatusBadge({ status }: { status: string }) {
  return <Badge {...shown(status)} />;
}

/** In a list, where one word has to do for the session and its agent. */
export function SessionBadge({ session }: { session: v1.Session }) {
  return <Badge {...listed(session)} title={shown(statusOf(session)).label} />;
}

function Badge({ label, tone, isBusy, title }: { label: string; tone: Tone; isBusy?: true; title?: string }) {
  return (
    <span className="badge" data-tone={tone} data-busy={isBusy ? "" : undefined} title={title}>
      {label}
    </span>
  );
}
