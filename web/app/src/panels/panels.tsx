import { type ComponentType, type KeyboardEvent, lazy, Suspense } from "react";
import { useLive } from "../session/live";
import { isAllowed } from "../session/notes";

export interface Panel {
  name: string;
  label: string;
  View: ComponentType;
}

export const PANELS: readonly Panel[] = [
  { name: "terminal", label: "Terminal", View: lazy(() => import("./terminal")) },
  { name: "files", label: "Files", View: lazy(() => import("./files")) },
  { name: "changes", label: "Changes", View: lazy(() => import("./changes")) },
  { name: "services", label: "Services", View: lazy(() => import("./services")) },
  { name: "preview", label: "Preview", View: lazy(() => import("./preview")) },
  { name: "desktop", label: "Desktop", View: lazy(() => import("./desktop")) },
  { name: "editor", label: "Editor", View: lazy(() => import("./code-server")) },
  { name: "snapshots", label: "Snapshots", View: lazy(() => import("./snapshots")) },
  { name: "activity", label: "Activity", View: lazy(() => import("./activity")) },
  { name: "egress", label: "Egress", View: lazy(() => import("./egress")) },
];

export function panelAt(name: string | null): Panel | null {
  return PANELS.find((panel) => panel.name === name) ?? null;
}

export function Panels({ open, onChoose }: { open: Panel | null; onChoose: (name: string) => void }) {
  const live = useLive();
  if (open === null) return null;
  const onKey = (event: KeyboardEvent<HTMLDivElement>) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const at = PANELS.indexOf(open);
    const next = PANELS[(at + step + PANELS.length) % PANELS.length];
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next.name);
    document.getElementById(`tab-${next.name}`)?.focus();
  };
  const blocked = live.blocked.filter((one) => !isAllowed(one, live.allowed)).length;
  return (
    <section className="panels" aria-label="Panels">
      <div className="tabs" role="tablist" aria-label="Panels" onKeyDown={onKey}>
        {PANELS.map((panel) => (
          <button
            key={panel.name}
            id={`tab-${panel.name}`}
            type="button"
            role="tab"
            aria-selected={panel === open}
            aria-controls="panel"
            tabIndex={panel === open ? 0 : -1}
            onClick={() => onChoose(panel.name)}
          >
            {panel.label}
            {panel.name === "egress" && blocked > 0 ? (
              <span className="count">
                {blocked}
                <span className="visually-hidden"> blocked</span>
              </span>
            ) : null}
          </button>
        ))}
      </div>
      <div className="panel" id="panel" role="tabpanel" aria-labelledby={`tab-${open.name}`}>
        <Suspense fallback={<div className="empty">Loading…</div>}>
          <open.View key={`${live.id}-${open.name}`} />
        </Suspense>
      </div>
    </section>
  );
}
