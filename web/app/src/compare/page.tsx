import type { v1 } from "@nacre/client";
import { Transcript } from "@nacre/client";
import { useEffect } from "react";
import { client, words } from "../api";
import { ago, money, plural, tokens } from "../format";
import { repoPaths } from "../panels/changes";
import { diffIn, readGit } from "../panels/git";
import { Link, navigate } from "../router";
import { can, isAsleep, statusOf } from "../session/status";
import { hasFailed, lastTest, readTool, summary, toolName } from "../session/tool";
import { costOf } from "../sessions/cost";
import { DiffLines } from "../text/diff-lines";
import { Counts } from "../text/diff-view";
import { Markdown } from "../text/markdown";
import { type FilePatch, numberedLines, readPatch, untracked } from "../text/patch";
import { StatusBadge } from "../ui/badge";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";

interface Side {
  session: v1.Session;
  messages: v1.Message[];
  /** Null: its sandbox sleeps, and nobody can look. */
  patches: FilePatch[] | null;
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
  return { session, messages, patches: await patchesOf(session) };
}

/** So many files that git does not know yet are fetched, and so much of each is shown. */
const MOST_NEW = 20;
const LONGEST_NEW = 100_000;

async function patchesOf(session: v1.Session): Promise<FilePatch[] | null> {
  if (isAsleep(session.client_status) || statusOf(session) === "unstarted") return null;
  try {
    const all = repoPaths(session).map((repo) => patchesIn(session.id, repo));
    return (await Promise.all(all)).flat().sort((one, other) => one.path.localeCompare(other.path));
  } catch {
    return null;
  }
}

async function patchesIn(id: string, repo: string): Promise<FilePatch[]> {
  const [diff, status] = await Promise.all([client.gitDiff(id, repo), client.gitStatus(id, repo)]);
  const unknown = readGit(status).changes.filter((change) => change.status === "?");
  const added = unknown.slice(0, MOST_NEW).map(async ({ path }) => {
    const text = await (await client.readFile(id, repo === "." ? path : `${repo}/${path}`)).text();
    return untracked(path, text.slice(0, LONGEST_NEW));
  });
  const found = await Promise.allSettled(added);
  return [...readPatch(diffIn(diff).diff), ...found.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))];
}

/** Two forks side by side, to keep the better one. */
export default function ComparePage({ one, other }: { one: string; other: string }) {
  const left = useLoaded(() => load(one), `compare-${one}`);
  const right = useLoaded(() => load(other), `compare-${other}`);
  useEffect(() => {
    document.title = "Compare · Nacre";
  }, []);
  const shared = sharedCount(left.value?.messages ?? [], right.value?.messages ?? []);
  return (
    <main className="page wide">
      <div className="page-head">
        <h1>Compare</h1>
        <span className="muted small">
          {shared > 0 ? `${plural(shared, "message")} in common are left out` : "two sessions side by side"}
        </span>
      </div>
      <div className="compare">
        <Column loaded={left} skip={shared} rival={right.value} onAgain={left.again} />
        <Column loaded={right} skip={shared} rival={left.value} onAgain={right.again} />
      </div>
    </main>
  );
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
  loaded: { value: Side | null; error: unknown };
  skip: number;
  rival: Side | null;
  onAgain: () => void;
}

function Column({ loaded, skip, rival, onAgain }: ColumnProps) {
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
        <button type="button" className="button primary small" onClick={() => void keep().catch(complain)}>
          Keep this one
        </button>
      </header>
      <Facts side={side} skip={skip} now={now} />
      <div className="compare-part">
        <h2 className="section-name">Changes</h2>
        {side.patches === null ? <Unseen session={session} onAgain={onAgain} /> : <Patches patches={side.patches} />}
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
      <button type="button" className="button small" onClick={() => client.resume(session.id).then(onAgain, complain)}>
        Resume to see its diff
      </button>
    </p>
  );
}

function Facts({ side, skip, now }: { side: Side; skip: number; now: number }) {
  const transcript = new Transcript();
  transcript.addOlder(side.messages.slice(skip));
  const usage = transcript.usage();
  const calls = transcript.messages
    .flatMap((message) => message.parts)
    .filter((part) => part.content.kind === "tool")
    .map((part) => readTool(part.content));
  const failed = calls.filter(hasFailed).length;
  const test = lastTest(calls);
  const cost = costOf(side.session) ?? usage.cost_micros;
  const added = side.patches?.reduce((sum, patch) => sum + patch.added, 0) ?? 0;
  const removed = side.patches?.reduce((sum, patch) => sum + patch.removed, 0) ?? 0;
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
        <dd>{side.patches === null ? "–" : <Counts added={added} removed={removed} />}</dd>
      </div>
      <div>
        <dt>Active</dt>
        <dd>{ago(side.session.last_active_at, now)}</dd>
      </div>
    </dl>
  );
}

function Patches({ patches }: { patches: FilePatch[] }) {
  if (patches.length === 0) return <p className="muted small">Nothing that git knows of has changed.</p>;
  return (
    <ul className="changed">
      {patches.map((patch) => (
        <li key={patch.path}>
          <details open={patches.length <= 3}>
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
  const calls = message.parts
    .map((part) => part.content as { kind?: string })
    .filter((content) => content.kind === "tool")
    .map(readTool);
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
