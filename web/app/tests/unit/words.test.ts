import { describe, expect, it } from "vitest";
import { ago, bytes, duration, money, repoName, tokens } from "../../src/format";
import { readGit } from "../../src/panels/git";
import { pageAt } from "../../src/router";
import { edits, hasFailed, lastTest, readTool, summary, toolName } from "../../src/session/tool";

describe("numbers and times", () => {
  it("are short", () => {
    expect([bytes(999), bytes(1500), bytes(25_000_000), bytes(null)]).toEqual(["999 B", "1.5 kB", "25 MB", "–"]);
    expect([duration(12), duration(2715), duration(65_000)]).toEqual(["12 ms", "2.7 s", "1 min 5 s"]);
    expect([ago(0, 10_000), ago(0, 120_000), ago(0, 7_200_000)]).toEqual(["now", "2 min ago", "2 h ago"]);
    expect([tokens(999), tokens(10_471), money(1_234_567), money(1200)]).toEqual(["999", "10k", "$1.23", "$0.0012"]);
    expect(repoName("https://github.com/octocat/Hello-World.git")).toBe("octocat/Hello-World");
  });
});

describe("a tool call in one line", () => {
  const call = (name: string, args: object, more: object = {}) =>
    readTool({ kind: "tool", name, status: "completed", args, ...more });

  it("says what it is about", () => {
    expect(summary(call("bash", { command: "ls -la\npwd", description: "look" }))).toBe("ls -la");
    expect(summary(call("write", { filePath: "/home/user/workspace/a/b.ts" }))).toBe("a/b.ts");
    expect(summary(call("services_expose", { nacre_agent_session: "ses_1", port: 3000 }))).toBe("port 3000");
    expect(toolName(call("nacre_services_expose", {}))).toBe("services expose");
    expect(summary(call("odd", { deep: { x: 1 } }))).toBe("");
  });

  it("knows what it changed, and whether it failed", () => {
    expect(edits(call("edit", { oldString: "a", newString: "b" }))).toEqual([{ before: "a", after: "b" }]);
    expect(edits(call("write", { content: "x" }))).toEqual([{ before: "", after: "x" }]);
    expect(edits(call("bash", { command: "x" }))).toEqual([]);
    expect(hasFailed(call("bash", {}, { exit_code: 1 }))).toBe(true);
    expect(hasFailed(call("bash", {}, { exit_code: 0 }))).toBe(false);
  });

  it("is found to be a run of tests", () => {
    const run = (command: string, exit_code: number) => call("bash", { command }, { exit_code });
    const calls = [run("npm test", 1), run("cargo nextest run", 0), run("ls tests", 0)];
    expect(summary(lastTest(calls) ?? call("none", {}))).toBe("cargo nextest run");
    expect(lastTest([run("cat test.txt", 0)])).toBeNull();
  });

  it("may be anything, and is read", () => {
    expect(readTool({ kind: "tool", args: null, status: 7 }).status).toBe("pending");
  });
});

describe("what a sandbox says of git", () => {
  it("is read, each path once", () => {
    const state = readGit({
      branch: "main",
      staged_changes: [{ path: "a", index_status: "A", worktree_status: "M" }],
      unstaged_changes: [{ path: "a", index_status: "A", worktree_status: "M" }],
      untracked_files: ["b"],
    });
    expect(state.changes.map((one) => `${one.status}${one.path}`)).toEqual(["Aa", "?b"]);
  });

  it("may be nonsense", () => {
    for (const said of [null, 7, [], { staged_changes: [null, 1], untracked_files: [{}] }]) {
      expect(readGit(said).changes).toEqual([]);
    }
  });
});

describe("places", () => {
  it("are named by their paths", () => {
    expect(pageAt("/")).toEqual({ page: "sessions" });
    expect(pageAt("/sessions/ses_1/files")).toEqual({ page: "session", id: "ses_1", panel: "files" });
    expect(pageAt("/compare/a/b")).toEqual({ page: "compare", one: "a", other: "b" });
    expect(pageAt("/compare/a")).toEqual({ page: "nowhere" });
    expect(pageAt("/%E0%A4%A")).toEqual({ page: "nowhere" });
  });
});
