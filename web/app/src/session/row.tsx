import { type Content, newPromptId } from "@nacre/client";
import { memo, useState } from "react";
import { client } from "../api";
import { bytes, money, tokens } from "../format";
import { IfMember, useMayChange } from "../rights";
import { Link } from "../router";
import { Markdown } from "../text/markdown";
import { Icon } from "../ui/icon";
import { complain } from "../ui/toasts";
import { useLive } from "./live";
import { NoteRow } from "./note-row";
import type { Row } from "./rows";
import { ToolRow } from "./tool-row";

export function RowView({ row }: { row: Row }) {
  const body = drawn(row);
  return row.isReverted ? (
    <div className="reverted" title="This was undone">
      {body}
    </div>
  ) : (
    body
  );
}

function drawn(row: Row) {
  switch (row.kind) {
    case "user":
      return <UserRow row={row} />;
    case "system":
      return <p className="system-row">{textOf(row.content)}</p>;
    case "note":
      return <NoteRow note={row.note} />;
    case "end":
      return <EndRow row={row} />;
    case "part":
      return <PartRow content={row.content} isOpen={row.isOpen} />;
  }
}

const PartRow = memo(function PartRow({ content, isOpen }: { content: Content; isOpen: boolean }) {
  switch (content.kind) {
    case "text":
      return (
        <div className="answer" data-open={isOpen ? "" : undefined}>
          <Markdown text={textOf(content)} />
        </div>
      );
    case "reasoning":
      return (
        <details className="thinking">
          <summary>{isOpen ? "Thinking…" : "Thought"}</summary>
          <Markdown text={textOf(content)} />
        </details>
      );
    case "tool":
      return <ToolRow content={content} />;
    case "error":
      return (
        <p className="turn-error" role="alert">
          {String(content["message"] ?? "The turn failed.")}
        </p>
      );
    case "image":
    case "screenshot":
      return <Picture content={content} />;
    case "break":
      return <p className="system-row">A new conversation begins here.</p>;
    case "forwarded":
      return (
        <blockquote className="forwarded">
          <Markdown text={textOf(content)} />
        </blockquote>
      );
    default:
      return isFile(content) ? <FileChip content={content} /> : null;
  }
});

function isFile(content: Content): boolean {
  return content.kind === "file" || content["type"] === "file";
}

/** What somebody sent along: its name and size; its bytes are in the sandbox. */
function FileChip({ content }: { content: Content }) {
  const size = content["size"];
  return (
    <span className="file-chip">
      <Icon name="file" size={14} />
      {String(content["name"] ?? "file")}
      {typeof size === "number" ? <span className="muted">{bytes(size)}</span> : null}
    </span>
  );
}

/** Pictures are drawn from what is here; none is fetched from anywhere. */
function Picture({ content }: { content: Content }) {
  const source = content["source"] as { data?: unknown } | undefined;
  const type = String(content["media_type"] ?? "");
  const about = String(content["description"] ?? "Picture");
  const isKnown = /^image\/(png|jpeg|gif|webp)$/.test(type) && typeof source?.data === "string";
  if (!isKnown) return <p className="system-row">{about}</p>;
  return <img className="picture" src={`data:${type};base64,${source.data as string}`} alt={about} />;
}

function UserRow({ row }: { row: Row & { kind: "user" } }) {
  const live = useLive();
  const author = (row.message.author as { name?: string; id?: string } | null)?.name ?? "You";
  const prompt = live.transcript.prompts.find((prompt) => prompt.id === row.prompt);
  const isQueued = prompt?.status === "queued";
  const isWithdrawn = prompt?.status === "finished" && /withdrawn/.test(prompt.reason ?? "");
  const first = row.parts
    .filter((part) => part.kind === "text")
    .map(textOf)
    .join("\n");
  const text = (row.prompt === null ? undefined : live.said.get(row.prompt)) ?? first;
  const files = row.parts.filter((part) => part.kind !== "text");
  // An older server does not tell of files; what was sent from here is known here.
  const sent = (row.prompt === null ? undefined : live.attached.get(row.prompt)) ?? [];
  const attached = files.some(isFile) ? [] : sent;
  const [isEdited, setEdited] = useState(false);

  return (
    <div className="said" data-queued={isQueued ? "" : undefined} data-withdrawn={isWithdrawn ? "" : undefined}>
      <div className="said-head">
        <strong>{author}</strong>
        {isQueued ? <Queued id={prompt.id} onEdit={() => setEdited(true)} /> : null}
        {isWithdrawn ? <span className="badge">withdrawn</span> : null}
        {prompt?.status === "failed" || prompt?.status === "interrupted" ? (
          <span className="badge" data-tone="bad">
            {prompt.status}
            {prompt.reason ? `: ${prompt.reason}` : ""}
          </span>
        ) : null}
      </div>
      {isEdited && isQueued ? (
        <EditQueued id={prompt.id} text={text} onDone={() => setEdited(false)} />
      ) : (
        <div className="said-text">{text}</div>
      )}
      {attached.length > 0 || files.length > 0 ? (
        <div className="said-files">
          {attached.map((name) => (
            <FileChip key={name} content={{ kind: "file", name }} />
          ))}
          {files.map((file, at) => (
            <PartRow key={at} content={file} isOpen={false} />
          ))}
        </div>
      ) : null}
    </div>
  );
}

/** A prompt that waits can still be said otherwise, or taken back. */
function Queued({ id, onEdit }: { id: string; onEdit: () => void }) {
  const live = useLive();
  return (
    <span className="row">
      <span className="badge" data-tone="info">
        queued
      </span>
      <IfMember>
        <button type="button" className="button quiet small" onClick={onEdit}>
          Edit
        </button>
        <button
          type="button"
          className="button quiet small"
          onClick={() => client.withdrawPrompt(live.id, id).catch(complain)}
        >
          Withdraw
        </button>
      </IfMember>
    </span>
  );
}

function EditQueued({ id, text, onDone }: { id: string; text: string; onDone: () => void }) {
  const live = useLive();
  const [next, setNext] = useState(text);
  const save = () => {
    client
      .editPrompt(live.id, id, { content: next })
      .then(() => {
        live.promptEdited(id, next);
        onDone();
      })
      .catch(complain);
  };
  return (
    <div className="edit-queued">
      <textarea
        className="input"
        aria-label="What waits, said otherwise"
        rows={3}
        value={next}
        onChange={(event) => setNext(event.target.value)}
      />
      <div className="row">
        <button type="button" className="button primary small" disabled={next.trim() === ""} onClick={save}>
          Save
        </button>
        <button type="button" className="button quiet small" onClick={onDone}>
          Keep as it was
        </button>
      </div>
    </div>
  );
}

/** What a model's provider says is told as it is, with what helps against the usual reasons. */
function TurnFailed({ error, prompt }: { error: string; prompt: string | null }) {
  const live = useLive();
  const asked = live.transcript.messages.find((message) => message.role === "user" && message.prompt_id === prompt);
  const isMember = useMayChange();
  const isOfKey = /\b(401|403)\b|api.?key|unauthori[sz]ed|authentication/i.test(error);
  return (
    <div className="turn-error" role="alert">
      <p>{error}</p>
      <div className="row wrap">
        {asked === undefined || !isMember ? null : (
          <button
            type="button"
            className="button small"
            onClick={() => live.prompt({ id: newPromptId(), content: asked.text, mode: "followup" })}
          >
            Ask again
          </button>
        )}
        {isOfKey ? <Link to="/settings/models">Look at the model keys</Link> : null}
        <span className="small">
          More: <code>nacre session why {live.id}</code>
        </span>
      </div>
    </div>
  );
}

function EndRow({ row }: { row: Row & { kind: "end" } }) {
  const usage = row.message.usage as Partial<Record<string, number>> | null;
  const said = (usage?.["input_tokens"] ?? 0) + (usage?.["cache_read_tokens"] ?? 0);
  const cost = usage?.["cost_micros"];
  if (row.reason === "error")
    return <TurnFailed error={row.error ?? "The turn failed."} prompt={row.message.prompt_id} />;
  return (
    <p className="turn-end">
      {row.reason === "canceled" ? <span>Cancelled</span> : null}
      {usage && said > 0 ? (
        <span title="Tokens that went to the model, and came back">
          {tokens(said)} in · {tokens(usage["output_tokens"] ?? 0)} out
        </span>
      ) : null}
      {cost ? <span>{money(cost)}</span> : null}
    </p>
  );
}

function textOf(content: Content): string {
  return typeof content.text === "string" ? content.text : "";
}
