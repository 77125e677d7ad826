// What a tool call says for itself in one line.

import type { Content } from "@nacre/client";

export interface ToolCall {
  name: string;
  status: "pending" | "running" | "completed" | "error";
  args: Record<string, unknown>;
  result: string;
  error: string;
  exitCode: number | null;
  isUnder: boolean;
}

export function readTool(content: Content): ToolCall {
  const status = content["status"];
  const args = content["args"];
  const exit = content["exit_code"];
  return {
    name: text(content["name"]) || "tool",
    status: status === "running" || status === "completed" || status === "error" ? status : "pending",
    args: typeof args === "object" && args !== null ? (args as Record<string, unknown>) : {},
    result: text(content["result"]),
    error: text(content["error"]),
    exitCode: typeof exit === "number" ? exit : null,
    isUnder: typeof content["under"] === "string",
  };
}

/** As people would say it: tools of our own carry our name for the agent's sake alone. */
export function toolName(call: ToolCall): string {
  return call.name.replace(/^nacre_/, "").replaceAll("_", " ");
}

/** The file that it is about. */
export function pathOf(call: ToolCall): string {
  return shortened(text(call.args["filePath"] ?? call.args["file_path"] ?? call.args["path"]));
}

export function summary(call: ToolCall): string {
  const { args } = call;
  switch (call.name) {
    case "bash":
      return firstLine(text(args["command"]));
    case "read":
    case "write":
    case "edit":
    case "list":
      return pathOf(call);
    case "glob":
    case "grep":
      return [text(args["pattern"]), pathOf(call)].filter((one) => one !== "").join(" in ");
    case "webfetch":
      return text(args["url"]);
    case "task":
      return text(args["description"]);
    case "todowrite":
    case "todoread":
      return "";
    default:
      return Object.entries(args)
        .filter(([name, value]) => isTelling(name, value))
        .slice(0, 3)
        .map(([name, value]) => (typeof value === "string" ? firstLine(value) : `${name} ${String(value)}`))
        .join(" · ");
  }
}

/** What it changes in a file: before and after, where that is told. */
export function edits(call: ToolCall): { before: string; after: string }[] {
  const { args } = call;
  if (call.name === "write") return [{ before: "", after: text(args["content"]) }];
  const one = (edit: Record<string, unknown>) => ({
    before: text(edit["oldString"] ?? edit["old_string"]),
    after: text(edit["newString"] ?? edit["new_string"]),
  });
  if (Array.isArray(args["edits"])) {
    return (args["edits"] as unknown[])
      .filter((edit): edit is Record<string, unknown> => typeof edit === "object" && edit !== null)
      .map(one);
  }
  const edit = one(args);
  return call.name.includes("edit") && (edit.before !== "" || edit.after !== "") ? [edit] : [];
}

const TESTS =
  /\b(pytest|vitest|jest|mocha|rspec|phpunit|tox|nextest|(cargo|go|npm|pnpm|yarn|bun|make|deno|mix|dotnet)( run)? test)\b|node --test/;

/** The last run of tests, where a command looks like one. */
export function lastTest(calls: readonly ToolCall[]): ToolCall | null {
  return calls.findLast((call) => typeof call.args["command"] === "string" && TESTS.test(call.args["command"])) ?? null;
}

export function hasFailed(call: ToolCall): boolean {
  return call.status === "error" || (call.exitCode !== null && call.exitCode !== 0);
}

/** What a call says of itself to people; agents also name their own conversations. */
function isTelling(name: string, value: unknown): boolean {
  if (name.startsWith("_") || /session/i.test(name)) return false;
  return typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value !== "");
}

function shortened(path: string): string {
  return path.replace(/^\/home\/user\/workspace\//, "");
}

function firstLine(line: string): string {
  return line.trim().split("\n")[0] ?? "";
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
