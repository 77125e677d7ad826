// What a session's status means, in words that tell the truth.

import type { Phase, Standing, v1 } from "@nacre/client";
import { duration } from "../format";

export type Tone = "good" | "warn" | "bad" | "info" | "plain";

const SHOWN: Record<v1.ClientStatus, { label: string; tone: Tone; isBusy?: true }> = {
  creating: { label: "Creating", tone: "info", isBusy: true },
  resuming: { label: "Resuming", tone: "info", isBusy: true },
  running: { label: "Running", tone: "good" },
  migrating: { label: "Moving", tone: "info", isBusy: true },
  paused: { label: "Paused", tone: "plain" },
  suspended: { label: "Suspended", tone: "warn" },
  degraded: { label: "Degraded", tone: "warn" },
  stopped: { label: "Stopped", tone: "plain" },
  error: { label: "Error", tone: "bad" },
};

export function shown(status: string): { label: string; tone: Tone; isBusy?: true } {
  return SHOWN[status as v1.ClientStatus] ?? { label: status, tone: "plain" };
}

export function isLive(status: string): boolean {
  return status === "running" || status === "migrating";
}

export function isAsleep(status: string): boolean {
  return status === "paused" || status === "suspended" || status === "stopped";
}

const PHASES: Record<string, string> = {
  sandbox: "Sandbox",
  link: "Connection",
  git: "Repositories",
  workspace: "Workspace",
  freshness: "Newest commits",
  content: "Instructions",
  agent: "Agent",
  env_files: "Env files",
  terminal: "Terminal",
  preview: "Preview",
  editor: "Editor",
  desktop: "Desktop",
  services: "Services",
};

export function phaseName(name: string): string {
  return PHASES[name] ?? name.replaceAll("_", " ");
}

/** Phases as the stream tells them, each once, in the order in which they were first heard of. */
export function withPhase(phases: readonly Phase[], phase: Phase): Phase[] {
  const at = phases.findIndex((known) => known.name === phase.name);
  return at < 0 ? [...phases, phase] : phases.map((known, place) => (place === at ? phase : known));
}

/** More than the one word, where there is more to say. */
export function explained(session: v1.Session, standing: Standing | null): string | null {
  const status = standing?.status ?? session.client_status;
  switch (status) {
    case "paused":
      return `Paused${because(session.pause_reason)}. Files and running programs are kept as they were.`;
    case "suspended":
      return `Suspended${because(session.pause_reason)}. Files are kept; programs start anew.`;
    case "stopped":
      return `Stopped${because(session.stop_reason)}. Its last snapshot is kept.`;
    case "degraded":
      return session.degraded
        ? `Lost: ${session.degraded.lost}. ${session.degraded.kept ? `Kept: snapshot ${session.degraded.kept}.` : "Nothing newer was kept."}`
        : "Part of it was lost. Recover to go on with what was kept.";
    case "error":
      return standing?.message ?? session.error ?? "It could not be started.";
    case "migrating":
      return "Moving to a new sandbox. What you send waits until it is there.";
    default:
      return null;
  }
}

/** One that was paused has its memory; one that was suspended or stopped has its disk. */
export function resumingFrom(sleptAs: string | null): string {
  if (sleptAs === null) return "Resuming";
  return sleptAs === "paused" ? "Resuming from memory" : "Resuming from its disk";
}

function because(reason: string | null | undefined): string {
  return reason ? ` (${reason.replaceAll("_", " ")})` : "";
}

export function phaseTime(phase: { state: string; took_ms?: number | null }): string {
  if (phase.state === "started") return "…";
  if (phase.state === "skipped") return "skipped";
  return phase.took_ms === null || phase.took_ms === undefined ? "" : duration(phase.took_ms);
}
