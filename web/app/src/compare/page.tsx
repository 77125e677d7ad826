import type { v1 } from "@nacre/client";
import { Transcript } from "@nacre/client";
import { useEffect } from "react";
import { client, words } from "../api";
import { ago, money, plural, tokens } from "../format";
import { IfMember } from "../rights";
import { Link, navigate } from "../router";
import { can, statusOf } from "../session/status";
import { hasFailed, lastTest, readTool, summary, type ToolCall, toolName } from "../session/tool";
import { costOf } from "../sessions/cost";
import { DiffLines } from "../text/diff-lines";
import { Counts } from "../text/diff-view";
import { Markdown } from "../text/markdown";
import { type FilePatch, numberedLines } from "../text/patch";
import { StatusBadge } from "../ui/badge";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { type Loaded, useLoaded, useNow } from "../ui/use";
import { type Changes, changesOf, type Repos, reposOf, shared } from "./changes";

interface Side {
  session: v1.Session;
  messages: v1.Message[];
  repos: Repos;
}

async function load(id: string): Promise<Side> {
  const session = await client.session(id);
  const messages: v1.Message[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < 20; page += 1) {
    const next = await client.messages(id, cursor === undefined ? {} : { cursor });
    messages.push(...next.items);
    cursor = next.next_cursor ?? undefined;
    if (cursor === undefined || next.items.length === 0) break;
  }
  return { session, messages, repos: await reposOf(session) };
}

/** Two forks side by side, to keep the better one. */
export default function ComparePage({ one, other }: { one: string; other: string }) {
  const left = useLoaded(() => load(one), `compare-${one}`);
  const right = useLoaded(() => load(other), `compare-${other}`);
  useEffect(() => {
    document.title = "Compare · Nacre";
  }, []);
  const common = sharedCount(left.value?.messages ?? [], right.value?.messages ?? []);
  const changes = useLoaded(() => changesOfBoth(left, right), `changes-${heard(left)}-${heard(right)}`);
  const [ours, theirs] = changes.value ?? [undefined, undefined];
  return (
    <main className="page wide">
      <div className="page-head">
        <h1>Compare</h1>
        <span className="muted small">
          {common > 0 ? `${plural(common, "message")} in common are left out` : "two sessions side by side"}
        </span>
      </div>
      <div className="compare">
        <Column loaded={left} changes={ours} skip={common} rival={right.value} rivals={theirs} />
        <Column loaded={right} changes={theirs} skip={common} rival={left.value} rivals={ours} />
      </div>
    </main>
  );
}

type Both = readonly [Changes | null | undefined, Changes | null | undefined];

/** Undefined while it is not known. One side waits for what the other has in common with it. */
async function changesOfBoth(one: Loaded<Side>, other: Loaded<Side>): Promise<Both> {
  if (heard(one) === "" || heard(other) === "") return [undefined, undefined];
  const of = (side: Side | null, rival: Side | null) =>
    side === null ? undefined : changesOf(side.session.id, side.repos, rival?.repos ?? null).catch(() => null);
  return Promise.all([of(one.value, other.value), of(other.value, one.value)]);
}

/** What there is to compare, as a word; nothing until there is. */
function heard({ value, error }: Loaded<Side>): string {
  if (value === null) return error ? "failed" : "";
  const heads = [...(value.repos ?? [])].map(([path, state]) => `${path}@${state.commits[0]?.sha}`);
  return `${value.session.id}:${value.repos === null ? "asleep" : heads.join()}`;
}

/** What both said before they went different ways. */
export function sharedCount(one: readonly v1.Message[], other: readonly v1.Message[]): number {
  const said = (message: v1.Message | undefined) =>
    message === undefined ? "" : `${message.role}:${message.created_at}:${textOf(message)}`;
  let count = 0;
  while (count < one.length && count < other.length && said(one[count]) === said(other[count])) count += 1;
  return count;
}

interface ColumnProps {
  loaded: Loaded<Side>;
  changes: Changes | null | undefined;
  skip: number;
  rival: Side | null;
  rivals: Changes | null | undefined;
}

function Column({ loaded, changes, skip, rival, rivals }: ColumnProps) {
  const now = useNow(30_000);
  const side = loaded.value;
  if (loaded.error) return <section className="notice">{words(loaded.error)}</section>;
  if (side === null) return <section className="empty">Loading…</section>;
  const { session } = side;
  const keep = async () => {
    if (rival === null) return;
    await client.changeSession(rival.session.id, { archived: true });
    navigate(`/sessions/${session.id}`);
    tell(`“${session.title}” is kept; the other one is archived`, {
      label: "Undo",
      act: () => void client.changeSession(rival.session.id, { archived: false }).catch(complain),
    });
  };
  return (
    <section className="compare-side" aria-label={session.title}>
      <header className="compare-head">
        <Link to={`/sessions/${session.id}`} className="cut">
          {session.title}
        </Link>
        <StatusBadge status={statusOf(session)} />
        <span className="grow" />
        <IfMember>
          <button type="button" className="button primary small" onClick={() => void keep().catch(complain)}>
            Keep this one
          </button>
        </IfMember>
      </header>
      <Facts side={side} changes={changes} now={now} />
      <div className="compare-part">
        <h2 className="section-name">Changes{changes ? ` since ${sinceWords(changes)}` : ""}</h2>
        {changes === undefined ? <p className="muted small">Looking…</p> : null}
        {changes === null ? <Unseen session={session} onAgain={loaded.again} /> : null}
        {changes ? <Changed changes={changes} rival={rivals?.patches ?? []} /> : null}
      </div>
      <div className="compare-part">
        <h2 className="section-name">Conversation</h2>
        {side.messages.slice(skip).map((message) => (
          <MessageView key={message.id} message={message} />
        ))}
        {side.messages.length <= skip ? <p className="muted small">Nothing was said since.</p> : null}
      </div>
    </section>
  );
}

function Unseen({ session, onAgain }: { session: v1.Session; onAgain: () => void }) {
  if (!can("resume", statusOf(session))) {
    return <p className="muted small">It has no sandbox that could be looked into.</p>;
  }
  return (
    <p className="muted small">
      Its sandbox is asleep.{" "}
      <IfMember>
        <button
          type="button"
          className="button small"
          onClick={() => client.resume(session.id).then(onAgain, complain)}
        >
          Resume to see its diff
        </button>
      </IfMember>
    </p>
  );
}

function sinceWords({ since }: Changes): string {
  return since === null ? "its last commit" : `the fork at ${since.map((sha) => sha.slice(0, 7)).join(", ")}`;
}

interface FactsProps {
  side: Side;
  changes: Changes | null | undefined;
  now: number;
}

function callsIn(messages: readonly v1.Message[]): ToolCall[] {
  return messages
    .flatMap((message) => message.parts.map((part) => part.content as { kind?: string }))
    .filter((content) => content.kind === "tool")
    .map(readTool);
}

/** What it took itself, as its cost is; but tests that passed before the fork have passed here, too. */
function Facts({ side, changes, now }: FactsProps) {
  const own = side.messages.filter((message) => !message.inherited);
  const transcript = new Transcript();
  transcript.addOlder(own);
  const usage = transcript.usage();
  const calls = callsIn(own);
  const failed = calls.filter(hasFailed).length;
  const test = lastTest(callsIn(side.messages));
  const cost = costOf(side.session) ?? usage.cost_micros;
  const added = changes?.patches.reduce((sum, patch) => sum + patch.added, 0) ?? 0;
  const removed = changes?.patches.reduce((sum, patch) => sum + patch.removed, 0) ?? 0;
  return (
    <dl className="facts-list">
      <div>
        <dt>Model</dt>
        <dd>{side.session.model?.split("/").pop() ?? "–"}</dd>
      </div>
      <div>
        <dt>Tokens</dt>
        <dd>
          {tokens(usage.input_tokens + usage.cache_read_tokens)} in, {tokens(usage.output_tokens)} out
        </dd>
      </div>
      {cost > 0 ? (
        <div>
          <dt>Cost</dt>
          <dd>{money(cost)}</dd>
        </div>
      ) : null}
      <div>
        <dt>Tools</dt>
        <dd>
          {calls.length}
          {failed > 0 ? `, ${failed} failed` : ""}
        </dd>
      </div>
      <div>
        <dt>Tests</dt>
        <dd title={test === null ? "No command looked like a run of tests" : summary(test)}>
          {test === null ? "none run" : hasFailed(test) ? "failed" : "passed"}
        </dd>
      </div>
      <div>
        <dt>Diff</dt>
        <dd>{!changes ? "–" : <Counts added={added} removed={removed} />}</dd>
      </div>
      <div>
        <dt>Active</dt>
        <dd>{ago(side.session.last_active_at, now)}</dd>
      </div>
    </dl>
  );
}

function Changed({ changes, rival }: { changes: Changes; rival: readonly FilePatch[] }) {
  const { patches, unread, isCut } = changes;
  const same = shared(patches, rival);
  const own = patches.filter((patch) => !same.has(patch.path));
  return (
    <>
      {own.length === 0 && unread.length === 0 ? (
        <p className="muted small">
          {same.size === 0 ? "Nothing has changed." : "Nothing has changed that is not so in both."}
        </p>
      ) : null}
      <Patches patches={own} isOpen={own.length <= 3} />
      {unread.length === 0 ? null : (
        <ul className="changed" aria-label="New files that are not shown">
          {unread.map((path) => (
            <li key={path} className="changed-head">
              <span className="cut mono grow">{path}</span>
              <span className="muted small">new</span>
            </li>
          ))}
        </ul>
      )}
      {isCut ? <p className="muted small">There is more than is shown here.</p> : null}
      {same.size === 0 ? null : (
        <details className="compare-same">
          <summary className="row muted small">
            <span className="fold-mark">
              <Icon name="fold" size={12} />
            </span>
            {plural(same.size, "file")} changed alike in both
          </summary>
          <Patches patches={patches.filter((patch) => same.has(patch.path))} isOpen={false} />
        </details>
      )}
    </>
  );
}

function Patches({ patches, isOpen }: { patches: readonly FilePatch[]; isOpen: boolean }) {
  if (patches.length === 0) return null;
  return (
    <ul className="changed">
      {patches.map((patch) => (
        <li key={patch.path}>
          <details open={isOpen}>
            <summary className="changed-head">
              <span className="fold-mark">
                <Icon name="fold" size={12} />
              </span>
              <span className="cut mono grow">{patch.path}</span>
              <Counts added={patch.added} removed={patch.removed} />
            </summary>
            <DiffLines lines={numberedLines(patch)} isNumbered />
          </details>
        </li>
      ))}
    </ul>
  );
}

function textOf(message: v1.Message): string {
  return message.parts
    .map((part) => part.content as { kind?: string; text?: string })
    .filter((content) => content.kind === "text")
    .map((content) => content.text ?? "")
    .join("\n\n");
}

function MessageView({ message }: { message: v1.Message }) {
  const calls = callsIn([message]);
  if (message.role === "user") {
    return (
      <div className="said">
        <div className="said-text">{textOf(message)}</div>
      </div>
    );
  }
  return (
    <div className="answer">
      {calls.map((call, at) => (
        <p key={at} className="tool-line muted small cut" data-failed={hasFailed(call) ? "" : undefined}>
          <code>{toolName(call)}</code> {summary(call)}
          {call.exitCode === null ? "" : ` · exit ${call.exitCode}`}
        </p>
      ))}
      <Markdown text={textOf(message)} />
    </div>
  );
}
