// A session's log as stretches of time: each start, each turn, and what happened between them.

import type { Frame } from "@nacre/client";
import { plural } from "../format";
import type { Heard } from "../session/live";
import { phaseName, shown } from "../session/status";
import { hasFailed, readTool, summary, toolName } from "../session/tool";

export type Kind = "phase" | "tool" | "prompt" | "other";

export interface Happening {
  key: string;
  kind: Kind;
  what: string;
  detail: string;
  tone: "warn" | "bad" | undefined;
  from: number | null;
  /** Null while it goes on. */
  to: number | null;
}

export interface Stretch {
  key: string;
  title: string;
  from: number | null;
  to: number | null;
  happenings: Happening[];
}

/** What comes later than this after a start or a turn was over has nothing to do with it. */
const AFTERWARDS_MS = 10_000;

type Loose = Frame & Record<string, unknown>;

interface PhaseTold {
  name: string;
  state: string;
  took_ms?: number;
  detail?: string;
}

function widen(stretch: Stretch, at: number | null): void {
  if (at === null) return;
  stretch.from = Math.min(stretch.from ?? at, at);
  stretch.to = Math.max(stretch.to ?? at, at);
}

class Teller {
  readonly stretches: Stretch[] = [];
  #open: { stretch: Stretch; overAt: number | null } | null = null;
  #start: Stretch | null = null;
  /** What was asked, by prompt; and which of them runs. */
  readonly #asked = new Map<string, string>();
  #running: string | null = null;
  readonly #known = new Map<string, Happening>();

  hear({ frame, at }: Heard, place: number): void {
    const loose = frame as Loose;
    switch (frame.type) {
      case "status":
        this.#status(loose, at, place);
        return;
      case "message":
        this.#message(loose, at, place);
        return;
      case "part":
        this.#part(loose, at);
        return;
      case "message.done":
        this.#done(loose, at);
        return;
      case "prompt":
        if (frame["status"] === "dispatched" || frame["status"] === "accepted") this.#turn(loose["id"], at, place);
        else this.#other(loose, at, place);
        return;
      default:
        this.#other(loose, at, place);
    }
  }

  #other(frame: Loose, at: number | null, place: number): void {
    const told = inWords(frame);
    if (told !== null) this.#add({ key: `e${place}`, from: at, to: at, ...told }, place);
  }

  /** A prompt may have waited, for another turn or for a start: its turn begins when it runs. */
  #turn(prompt: unknown, at: number | null, place: number): void {
    if (typeof prompt !== "string" || prompt === this.#running) return;
    this.#running = prompt;
    this.#begin(this.#asked.get(prompt) ?? "Turn", at, place);
  }

  #status(frame: Loose, at: number | null, place: number): void {
    const phase = frame["phase"] as PhaseTold | null;
    if (!phase) {
      const { label, tone } = shown(String(frame["status"]));
      const isBad = tone === "bad" || tone === "warn";
      const detail = typeof frame["message"] === "string" ? frame["message"] : "";
      this.#add(
        { key: `e${place}`, kind: "phase", what: label, detail, tone: isBad ? tone : undefined, from: at, to: at },
        place,
      );
      if (frame["status"] === "running") this.#close(at);
      return;
    }
    const key = `phase-${phase.name}`;
    const known = this.#known.get(key);
    const isNext = phase.name === "sandbox" && known !== undefined && known.to !== null;
    if (this.#start === null || isNext || (phase.name === "sandbox" && known === undefined)) {
      for (const old of this.#known.keys()) if (old.startsWith("phase-")) this.#known.delete(old);
      this.#start = this.#begin("Start", at, place);
    }
    this.#phase(this.#start, key, phase, at, place);
  }

  /** Some phases go on beside the first turn, and still belong to the start. */
  #phase(start: Stretch, key: string, phase: PhaseTold, at: number | null, place: number): void {
    let known = this.#known.get(key);
    if (known === undefined) {
      const what = phaseName(phase.name);
      known = { key: `e${place}`, kind: "phase", what, detail: "", tone: undefined, from: at, to: null };
      this.#known.set(key, known);
      start.happenings.push(known);
    }
    if (phase.state !== "started") {
      known.to = at;
      if (at !== null && typeof phase.took_ms === "number") known.from = at - phase.took_ms;
      known.detail = phase.state === "skipped" ? "skipped" : (phase.detail ?? "");
      known.tone = phase.state === "failed" ? "warn" : undefined;
    }
    widen(start, known.from);
    widen(start, at);
  }

  #message(frame: Loose, at: number | null, place: number): void {
    if (frame["role"] === "user") {
      const parts = (frame["parts"] as { content?: { kind?: string; text?: string } }[] | undefined) ?? [];
      const text = parts.map((part) => part.content?.text ?? "").join(" ");
      this.#asked.set(String(frame["prompt_id"]), text.trim() || "Turn");
      return;
    }
    this.#turn(frame["prompt_id"], at, place);
    const answer: Happening = {
      key: `e${place}`,
      kind: "prompt",
      what: "Answer",
      detail: "",
      tone: undefined,
      from: at,
      to: null,
    };
    this.#known.set(`message-${String(frame["message_id"])}`, answer);
    this.#add(answer, place);
  }

  #part(frame: Loose, at: number | null): void {
    const content = frame["content"] as { kind?: string } & Record<string, unknown>;
    if (content?.kind !== "tool") return;
    const key = `part-${String(frame["message_id"])}-${String(frame["part_id"])}`;
    const call = readTool(content);
    let known = this.#known.get(key);
    if (known === undefined) {
      known = { key, kind: "tool", what: toolName(call), detail: "", tone: undefined, from: at, to: null };
      this.#known.set(key, known);
      this.#add(known, 0);
    }
    const exit = call.exitCode === null || call.exitCode === 0 ? "" : ` · exit ${call.exitCode}`;
    known.detail = `${summary(call)}${exit}`;
    known.tone = hasFailed(call) ? "bad" : undefined;
    if (call.status === "completed" || call.status === "error") known.to = at;
    this.#stretch(at);
  }

  #done(frame: Loose, at: number | null): void {
    const known = this.#known.get(`message-${String(frame["message_id"])}`);
    if (known === undefined) return;
    known.to = at;
    if (frame["reason"] === "canceled") known.what = "Cancelled";
    if (frame["reason"] === "error") {
      known.what = "Failed";
      known.tone = "bad";
      known.detail = String(frame["error"] ?? "");
    }
    this.#close(at);
  }

  #begin(title: string, at: number | null, place: number): Stretch {
    const stretch: Stretch = { key: `s${place}`, title, from: at, to: at, happenings: [] };
    this.stretches.push(stretch);
    this.#open = { stretch, overAt: null };
    return stretch;
  }

  #add(happening: Happening, place: number): void {
    const { from } = happening;
    const overAt = this.#open?.overAt ?? null;
    const isLater = overAt !== null && from !== null && from - overAt > AFTERWARDS_MS;
    if (this.#open === null || isLater) this.#begin("Meanwhile", from, place);
    this.#open?.stretch.happenings.push(happening);
    this.#stretch(happening.to ?? from);
  }

  #stretch(at: number | null): void {
    if (this.#open !== null) widen(this.#open.stretch, at);
  }

  #close(at: number | null): void {
    this.#stretch(at);
    if (this.#open !== null) this.#open.overAt = at;
  }
}

/** The oldest first. */
export function stretchesOf(heard: readonly Heard[]): Stretch[] {
  const teller = new Teller();
  heard.forEach((one, place) => {
    teller.hear(one, place);
  });
  return teller.stretches.filter((stretch) => stretch.happenings.length > 0);
}

const PROMPTS: Record<string, string> = {
  queued: "waits for its turn",
  failed: "could not be run",
  interrupted: "was interrupted",
};

type Told = Pick<Happening, "kind" | "what" | "detail" | "tone">;

/** Null: it says nothing that is not said otherwise. */
function inWords(frame: Loose): Told | null {
  const text = (name: string) => (typeof frame[name] === "string" ? frame[name] : "");
  const other = (what: string, detail: string, tone?: "warn" | "bad"): Told => ({ kind: "other", what, detail, tone });
  const list = (name: string) => (Array.isArray(frame[name]) ? (frame[name] as Record<string, unknown>[]) : []);
  switch (frame.type) {
    case "prompt": {
      const how = PROMPTS[text("status")];
      const why = text("reason").replaceAll("_", " ");
      if (how === undefined) return null;
      const tone = text("status") === "queued" ? undefined : "warn";
      return { kind: "prompt", what: "Prompt", detail: why === "" ? how : `${how}: ${why}`, tone };
    }
    case "error":
      return other("Error", text("message"), "bad");
    case "files_changed": {
      const files = list("files");
      const names = files.map((file) => String(file["path"] ?? "")).slice(0, 4);
      return other("Files", files.length > 4 ? `${names.join(", ")} and ${files.length - 4} more` : names.join(", "));
    }
    case "ports":
      // The sandbox's own way out is nobody's server.
      if (list("ports").every((one) => one["port"] === 3128)) return null;
      return other(
        "Ports",
        list("ports").length === 0
          ? "none open"
          : list("ports")
              .map((one) => one["port"])
              .join(", "),
      );
    case "services": {
      const all = list("services").map((one) => `${one["name"]} ${one["standing"] ?? one["status"] ?? ""}`.trim());
      return other("Services", all.join(", "));
    }
    case "egress_blocked":
      return other("Blocked", text("host"), "warn");
    case "egress_allowed":
      return other("Allowed", text("rule"));
    case "model_switched":
      return other("Model", `${text("from")} → ${text("to")}: ${text("reason")}`);
    case "title":
      return other("Title", text("title"));
    case "question":
      return other(
        "Asked you",
        list("items")
          .map((item) => String(item["text"] ?? ""))
          .join(" "),
      );
    case "permission":
      return other("Permission", text("tool"));
    case "action_approval_request":
      return other("Asked for", `${text("integration")} ${text("action")}`);
    case "action_approval_result":
      return other("Decided", text("status"));
    case "env_request":
      return other("Asked for", plural(list("keys").length, "value"));
    case "preview_url":
      return text("url") === "" ? null : other("Preview", "is open");
    case "pull_request":
      return other("Pull request", text("title"));
    case "snapshot":
    case "snapshot_result":
      return other("Snapshot", text("message"));
    default:
      return null;
  }
}
