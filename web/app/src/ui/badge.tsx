import { shown } from "../session/status";

export function StatusBadge({ status }: { status: string }) {
  const { label, tone, isBusy } = shown(status);
  return (
    <span className="badge" data-tone={tone} data-busy={isBusy ? "" : undefined}>
      {label}
    </span>
  );
}
