import type { Content } from "@nacre/client";
import { memo, useState } from "react";
import { Code } from "../text/code";
import { DiffCounts, DiffView } from "../text/diff-view";
import { Icon } from "../ui/icon";
import { edits, hasFailed, pathOf, readTool, summary, type ToolCall, toolName } from "./tool";

const LONGEST = 40_000;

/** A call in one line; what it did is behind it. */
export const ToolRow = memo(function ToolRow({ content }: { content: Content }) {
  const [isOpen, setOpen] = useState(false);
  const call = readTool(content);
  const isOver = call.status === "completed" || call.status === "error";
  const first = edits(call)[0];
  return (
    <div className="tool" data-under={call.isUnder ? "" : undefined} data-failed={hasFailed(call) ? "" : undefined}>
      <button type="button" className="tool-head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className="fold-mark" data-busy={isOver ? undefined : ""} data-open={isOpen ? "" : undefined}>
          <Icon name="fold" size={12} />
        </span>
        <span className="tool-name">{toolName(call)}</span>
        <span className="tool-summary cut">{summary(call)}</span>
        {first ? <DiffCounts before={first.before} after={first.after} /> : null}
        <span className="tool-state">{state(call)}</span>
      </button>
      {isOpen ? <Opened call={call} /> : null}
    </div>
  );
});

function state(call: ToolCall): string {
  if (call.status === "pending" || call.status === "running") return "running…";
  if (call.exitCode !== null) return call.exitCode === 0 ? "exit 0" : `exit ${call.exitCode}`;
  return call.status === "error" ? "failed" : "done";
}

function Opened({ call }: { call: ToolCall }) {
  const changes = edits(call);
  const command = typeof call.args["command"] === "string" ? call.args["command"] : null;
  const hasOwnView = changes.length > 0 || command !== null;
  return (
    <div className="tool-body">
      {command === null ? null : (
        <pre className="tool-command">
          <span className="muted">$ </span>
          <Code code={command} language="bash" />
        </pre>
      )}
      {changes.map((change, at) => (
        <figure key={at}>
          <figcaption className="muted mono">{pathOf(call)}</figcaption>
          <DiffView before={change.before} after={change.after} isWhole={call.name === "write"} />
        </figure>
      ))}
      {hasOwnView ? null : <pre className="tool-output">{JSON.stringify(call.args, null, 2)}</pre>}
      {call.error === "" ? null : <pre className="tool-output bad">{call.error}</pre>}
      {call.result === "" || (changes.length > 0 && call.error === "") ? null : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard.
        <pre className="tool-output" tabIndex={0}>
          {call.result.slice(0, LONGEST)}
          {call.result.length > LONGEST ? "\n… cut here" : ""}
        </pre>
      )}
    </div>
  );
}
