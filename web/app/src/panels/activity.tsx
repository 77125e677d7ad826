import type { Frame } from "@nacre/client";
import { useEffect, useMemo, useState } from "react";
import { clock, duration } from "../format";
import { type Heard, useLive } from "../session/live";
import { phaseName, phaseTime } from "../session/status";
import { readTool, summary } from "../session/tool";

const KINDS = [
  { name: "all", label: "All" },
  { name: "phase", label: "Phases" },
  { name: "tool", label: "Tools" },
  { name: "prompt", label: "Prompts" },
  { name: "other", label: "Other" },
] as const;

/** Every phase, tool and event, as the log tells it. */
export default function ActivityPanel() {
  const live = useLive();
  const [kind, setKind] = useState<string>("all");
  useEffect(() => live.loadLog(), [live]);
  const heard = live.heard;
  const entries = useMemo(() => told(heard), [heard]);
  const shown = entries.filter((entry) => kind === "all" || entry.kind === kind);
  return (
    <div className="activity">
      <Phases />
      <div className="row panel-bar">
        <fieldset className="segments" aria-label="Which events">
          {KINDS.map((one) => (
            <button key={one.name} type="button" aria-pressed={kind === one.name} onClick={() => setKind(one.name)}>
              {one.label}
            </button>
          ))}
        </fieldset>
        <span className="grow" />
        <span className="muted small">{shown.length} events</span>
      </div>
      <ol className="timeline">
        {shown
          .slice(-1000)
          .reverse()
          .map((entry) => (
            <li key={entry.seq} data-kind={entry.kind} data-tone={entry.tone}>
              <span className="muted mono small">{entry.at === null ? `#${entry.seq}` : clock(entry.at)}</span>
              <span className="timeline-what">{entry.what}</span>
              <span className="cut muted grow">{entry.detail}</span>
            </li>
          ))}
      </ol>
    </div>
  );
}

function Phases() {
  const live = useLive();
  const phases = live.record?.phases ?? [];
  const start = Math.min(...phases.map((phase) => Date.parse(phase.started_at)));
  const end = Math.max(...phases.map((phase) => Date.parse(phase.started_at) + (phase.took_ms ?? 0)));
  const span = Math.max(1, end - start);
  if (phases.length === 0) return null;
  return (
    <section className="phase-chart" aria-label={`Last start, ${duration(span)}`}>
      <h3 className="section-name">Last start: {duration(span)}</h3>
      <ol>
        {phases.map((phase) => (
          <li key={phase.name} data-state={phase.state} title={phase.detail ?? undefined}>
            <span className="cut">{phaseName(phase.name)}</span>
            <span className="phase-track">
              <i
                style={{
                  left: `${((Date.parse(phase.started_at) - start) / span) * 100}%`,
                  width: `${Math.max(0.6, ((phase.took_ms ?? 0) / span) * 100)}%`,
                }}
              />
            </span>
            <span className="muted small">{phase.state === "failed" ? "not there" : phaseTime(phase)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

interface Entry {
  seq: number;
  at: number | null;
  kind: string;
  what: string;
  detail: string;
  tone: string | undefined;
}

const SILENT = new Set(["agent_status", "message", "models", "part.delta", "presence"]);

export function told(heard: readonly Heard[]): Entry[] {
  const out: Entry[] = [];
  for (const { frame, at } of heard) {
    const seq = (frame as { seq?: number }).seq ?? 0;
    const entry = SILENT.has(frame.type) ? null : entryOf(frame as Frame & Record<string, unknown>);
    if (entry !== null) out.push({ seq, at, ...entry });
  }
  return out;
}

function entryOf(frame: Frame & Record<string, unknown>): Omit<Entry, "seq" | "at"> | null {
  const text = (name: string) => String(frame[name] ?? "");
  switch (frame.type) {
    case "status": {
      const phase = frame["phase"] as { name: string; state: string; took_ms?: number; detail?: string } | null;
      if (!phase) return { kind: "phase", what: "Status", detail: text("status"), tone: undefined };
      if (phase.state === "started") return null;
      const detail = [phaseTime(phase), phase.detail ?? ""].filter((one) => one !== "").join(" · ");
      const tone = phase.state === "failed" ? "warn" : undefined;
      return { kind: "phase", what: phaseName(phase.name), detail, tone };
    }
    case "part": {
      const content = frame["content"] as { kind?: string } & Record<string, unknown>;
      if (content.kind !== "tool") return null;
      const call = readTool(content);
      if (call.status === "pending" || call.status === "running") return null;
      const exit = call.exitCode === null ? "" : ` · exit ${call.exitCode}`;
      const isBad = call.status === "error" || (call.exitCode ?? 0) !== 0;
      return { kind: "tool", what: call.name, detail: `${summary(call)}${exit}`, tone: isBad ? "bad" : undefined };
    }
    case "prompt":
      return { kind: "prompt", what: "Prompt", detail: `${text("status")} ${text("reason")}`.trim(), tone: undefined };
    case "message.done":
      return { kind: "prompt", what: "Answer", detail: text("reason"), tone: undefined };
    case "error":
      return { kind: "other", what: "Error", detail: text("message"), tone: "bad" };
    case "files_changed": {
      const files = (frame["files"] as { path: string }[] | undefined) ?? [];
      return { kind: "other", what: "Files", detail: files.map((file) => file.path).join(", "), tone: undefined };
    }
    case "ports": {
      const ports = (frame["ports"] as { port: number }[] | undefined) ?? [];
      return { kind: "other", what: "Ports", detail: ports.map((one) => one.port).join(", "), tone: undefined };
    }
    case "services": {
      const all = (frame["services"] as { name: string; standing?: string; status?: string }[] | undefined) ?? [];
      const detail = all.map((one) => `${one.name} ${one.standing ?? one.status ?? ""}`.trim()).join(", ");
      return { kind: "other", what: "Services", detail, tone: undefined };
    }
    case "egress_blocked":
      return { kind: "other", what: "Blocked", detail: text("host"), tone: "warn" };
    default: {
      const { type, seq: _, ...rest } = frame;
      const detail = Object.keys(rest).length === 0 ? "" : JSON.stringify(rest).slice(0, 200);
      return { kind: "other", what: String(type).replaceAll("_", " "), detail, tone: undefined };
    }
  }
}
