import type { v1 } from "@nacre/client";
import { describe, expect, it } from "vitest";
import {
  adviceFor,
  can,
  explained,
  joinedPhases,
  keptOf,
  listed,
  resumingFrom,
  withPhase,
} from "../../src/session/status";

const session = (more: object) => ({ client_status: "running", ...more }) as v1.Session;
const said = (more: object) => explained(session(more), null, 120_000);

describe("a status in words", () => {
  it("says what was kept and lost", () => {
    const degraded = { lost: "running programs", kept: "snp_1", since: "" };
    expect(said({ client_status: "degraded", degraded })).toBe("Lost: running programs. Kept: snapshot snp_1.");
  });

  it("says nothing where there is nothing to say", () => {
    expect(said({})).toBeNull();
  });

  it("promises memory only where the server says that it is kept", () => {
    const paused = { client_status: "paused", pause_reason: "manual", paused_at: new Date(0).toISOString() };
    expect(said(paused)).toBe("Paused, 2 min ago. Its files are kept.");
    expect(said({ ...paused, kept: "memory" })).toMatch(/with their memory/);
    expect(said({ ...paused, kept: "disk" })).toMatch(/programs start anew/);
    expect([resumingFrom(null), resumingFrom("memory"), resumingFrom("disk")]).toEqual([
      "Resuming",
      "Resuming from memory",
      "Resuming from its disk",
    ]);
    expect(keptOf(session({ kept: "elsewhere" }))).toBeNull();
  });

  it("does not call one that waits for its first prompt busy", () => {
    expect(said({ client_status: "creating", generation: 0 })).toMatch(/Not started yet/);
    expect(said({ client_status: "creating", generation: 1 })).toBeNull();
  });

  it("says who holds a session, and until when", () => {
    expect(said({ client_status: "suspended", pause_reason: "credit_limit" })).toMatch(/credit is used up/);
    expect(said({ client_status: "suspended", pause_reason: "administrator" })).toMatch(/administrator holds it/);
    expect(said({ client_status: "suspended" })).toMatch(/somebody holds it/);
  });

  it("says that an end is one", () => {
    expect(said({ client_status: "stopped", stop_reason: "manual", snapshot_id: "snp_1" })).toBe(
      "Stopped for good. The conversation stays; a fork goes on from its last snapshot.",
    );
    expect(said({ client_status: "stopped", stop_reason: "sandbox_terminated" })).not.toMatch(/fork/);
  });
});

describe("what can be done", () => {
  it("is what the server does not refuse", () => {
    expect(["paused", "suspended", "stopped", "error"].map((status) => can("resume", status))).toEqual([
      true,
      false,
      false,
      true,
    ]);
    expect([can("fork", "stopped"), can("stop", "stopped"), can("prompt", "stopped")]).toEqual([true, false, false]);
  });

  it("is said with an error", () => {
    expect(adviceFor('there is no program "opencode" in it', "ses_1")).toMatchObject({
      command: "nacre base build --slim",
      canRetry: false,
    });
    expect(adviceFor("the provider did not answer", "ses_1").command).toBe("nacre session why ses_1");
  });
});

describe("phases", () => {
  it("count once each", () => {
    const begun = withPhase([], { name: "git", state: "started" });
    const done = withPhase(begun, { name: "git", state: "done", took_ms: 3 });
    expect(done).toEqual([{ name: "git", state: "done", took_ms: 3 }]);
  });

  it("are known to who comes in the middle of a start", () => {
    const record = [
      { name: "sandbox", state: "done", started_at: "", took_ms: 9 },
      { name: "git", state: "started", started_at: "" },
    ];
    const all = joinedPhases(record, [{ name: "git", state: "done", took_ms: 5 }]);
    expect(all.map((phase) => `${phase.name} ${phase.state}`)).toEqual(["sandbox done", "git done"]);
  });
});

describe("a session in a list", () => {
  const word = (more: object) => listed(session(more)).label;

  it("that runs says what its agent does", () => {
    const words = ["busy", "waiting", "queued", "idle"].map((agent_state) => word({ agent_state }));
    expect(words).toEqual(["Working", "Waits for you", "Queued", "Idle"]);
  });

  it("that sleeps says so, unless something waits in it", () => {
    expect(word({ client_status: "paused", agent_state: "sleeping" })).toBe("Paused");
    expect(word({ client_status: "paused", agent_state: "queued" })).toBe("Queued");
    expect(word({ client_status: "suspended", agent_state: "queued" })).toBe("On hold");
  });

  it("says its status where the server says no more, or something new", () => {
    expect([word({}), word({ agent_state: "dreaming" }), word({ client_status: "stopped" })]).toEqual([
      "Running",
      "Running",
      "Stopped",
    ]);
  });
});
