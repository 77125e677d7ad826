// What a session's status means, in words that tell the truth, and what can be done about it.

import type { Phase, Standing, v1 } from "@nacre/client";
import { ago, duration } from "../format";

export type Tone = "good" | "warn" | "bad" | "info" | "plain";

/** One that was never started waits, where the server says that it is being created. */
export type Shown = v1.ClientStatus | "unstarted";

const SHOWN: Record<Shown, { label: string; tone: Tone; isBusy?: true }> = {
  unstarted: { label: "Not started", tone: "plain" },
  creating: { label: "Creating", tone: "info", isBusy: true },
  resuming: { label: "Resuming", tone: "info", isBusy: true },
  running: { label: "Running", tone: "good" },
  migrating: { label: "Moving", tone: "info", isBusy: true },
  paused: { label: "Paused", tone: "plain" },
  suspended: { label: "On hold", tone: "warn" },
  degraded: { label: "Degraded", tone: "warn" },
  stopped: { label: "Stopped", tone: "plain" },
  error: { label: "Error", tone: "bad" },
};

export function shown(status: string): { label: string; tone: Tone; isBusy?: true } {
  return SHOWN[status as Shown] ?? { label: status, tone: "plain" };
}

export function statusOf(session: v1.Session): Shown {
  return session.client_status === "creating" && session.generation === 0 ? "unstarted" : session.client_status;
}

export function isAsleep(status: string): boolean {
  return status === "paused" || status === "suspended" || status === "stopped";
}

export type Deed = "pause" | "resume" | "recover" | "snapshot" | "fork" | "stop" | "prompt";

/** In which status the server does it; it refuses in all others. */
const WHEN: Record<Deed, readonly string[]> = {
  pause: ["running"],
  resume: ["unstarted", "paused", "error"],
  recover: ["degraded"],
  snapshot: ["running"],
  fork: ["running", "migrating", "paused", "suspended", "degraded", "stopped", "error"],
  stop: ["unstarted", "creating", "resuming", "running", "migrating", "paused", "suspended", "degraded", "error"],
  prompt: ["unstarted", "creating", "resuming", "running", "migrating", "paused", "suspended", "error"],
};

export function can(deed: Deed, status: string): boolean {
  return WHEN[deed].includes(status);
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

/** What the record knows of a start, and what was heard since: for who came in the middle of one. */
export function joinedPhases(record: readonly v1.PhaseInfo[], heard: readonly Phase[]): Phase[] {
  const known = record.map(
    ({ name, state, took_ms, detail }): Phase => ({
      name,
      state: state as Phase["state"],
      ...(took_ms == null ? {} : { took_ms }),
      ...(detail == null ? {} : { detail }),
    }),
  );
  return heard.reduce(withPhase, known);
}

export type Kept = "memory" | "disk";

/** What a session that sleeps has kept; null where nobody says. */
export function keptOf(session: v1.Session | null): Kept | null {
  const kept = (session as { kept?: unknown } | null)?.kept;
  return kept === "memory" || kept === "disk" ? kept : null;
}

const AGENTS: Partial<Record<v1.AgentState, { label: string; tone: Tone; isBusy?: true }>> = {
  busy: { label: "Working", tone: "good", isBusy: true },
  waiting: { label: "Waits for you", tone: "warn" },
  queued: { label: "Queued", tone: "info" },
  idle: { label: "Idle", tone: "plain" },
};

/** As a list tells it in one word: of one that runs, what its agent does. */
export function listed(session: v1.Session): { label: string; tone: Tone; isBusy?: true } {
  const status = statusOf(session);
  const isAgents = status === "running" || (status === "paused" && session.agent_state === "queued");
  return (isAgents && session.agent_state && AGENTS[session.agent_state]) || shown(status);
}

const PAUSED: Record<string, string> = {
  manual: "Paused",
  inactivity: "Paused because nothing used it",
  recovered: "Paused: its sandbox died, and its disk was saved",
  start_failed: "Paused: it could not be started again, and nothing was lost",
  cleared: "Paused: what had held it back is gone",
};

const HELD: Record<string, string> = {
  credit_limit: "the credit is used up. It can go on when there is credit again",
  administrator: "an administrator holds it. It can go on when they let it",
};

const ENDED: Record<string, string> = {
  sandbox_terminated: ": its sandbox died, and neither its disk nor a snapshot was left",
  paused_too_long: ": it was paused for longer than it is kept",
};

const WOKEN: Record<Kept, string> = {
  memory: "Its programs stand still, with their memory, and go on where they were.",
  disk: "Its files are kept; programs start anew.",
};

/** More than the one word, where there is more to say. */
export function explained(session: v1.Session, standing: Standing | null, now: number): string | null {
  const status = statusOf({ ...session, client_status: standing?.status ?? session.client_status });
  const reason = session.pause_reason ?? "";
  switch (status) {
    case "paused": {
      const since = session.paused_at ? `, ${ago(session.paused_at, now)}` : "";
      const kept = keptOf(session);
      return `${PAUSED[reason] ?? "Paused"}${since}. ${kept === null ? "Its files are kept." : WOKEN[kept]}`;
    }
    case "unstarted":
      return "Not started yet: it starts when you ask for something.";
    case "suspended":
      return `On hold: ${HELD[reason] ?? "somebody holds it. It can go on when they let it"}. Nothing is lost, and what you send waits.`;
    case "stopped": {
      const how = `Stopped for good${ENDED[session.stop_reason ?? ""] ?? ""}.`;
      return `${how} The conversation stays${session.snapshot_id ? "; a fork goes on from its last snapshot" : ""}.`;
    }
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

export interface Advice {
  text: string;
  /** To be typed where the server runs. */
  command: string | null;
  canRetry: boolean;
}

/** What to do about a start that failed. */
export function adviceFor(error: string, session: string): Advice {
  if (/no program "?opencode/.test(error)) {
    return {
      text: "Its base has no agent in it. Build one on the server's machine, then begin a new session:",
      command: "nacre base build --slim",
      canRetry: false,
    };
  }
  if (/no base|base .*(missing|not there)/i.test(error)) {
    return { text: "Build a base on the server's machine:", command: "nacre base build --slim", canRetry: true };
  }
  if (/clon|repository|repositories|git /i.test(error)) {
    return {
      text: "Look whether the address is right and whether Settings has a token for it, then try again.",
      command: null,
      canRetry: true,
    };
  }
  return {
    text: "Try again. If it stays so, this tells more on the server's machine:",
    command: `nacre session why ${session}`,
    canRetry: true,
  };
}

export function resumingFrom(kept: Kept | null): string {
  if (kept === null) return "Resuming";
  return kept === "memory" ? "Resuming from memory" : "Resuming from its disk";
}

export function phaseTime(phase: { state: string; took_ms?: number | null }): string {
  if (phase.state === "started") return "…";
  if (phase.state === "skipped") return "skipped";
  return phase.took_ms === null || phase.took_ms === undefined ? "" : duration(phase.took_ms);
}
