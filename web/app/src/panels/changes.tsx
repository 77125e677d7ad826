import type { Frame, v1 } from "@nacre/client";
import { type FormEvent, useState } from "react";
import { client } from "../api";
import { ago, plural } from "../format";
import { IfMember } from "../rights";
import { useLive } from "../session/live";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";
import { Failed, WhenAwake } from "./asleep";
import { ChangedFile } from "./changed-file";
import { type GitState, readGit, statusWord } from "./git";

export default function ChangesPanel() {
  return (
    <WhenAwake what="What changed">
      <Changes />
    </WhenAwake>
  );
}

/** Where repositories are: below the workspace, by their own names; without any, the workspace is one. */
export function repoPaths(record: v1.Session | null): string[] {
  const repos = record?.repos ?? [];
  const paths = repos.map(
    (repo) =>
      repo.path ??
      repo.url
        ?.replace(/(\.git)?\/?$/, "")
        .split("/")
        .pop() ??
      ".",
  );
  return paths.length === 0 ? ["."] : paths;
}

function Changes() {
  const live = useLive();
  const paths = repoPaths(live.record);
  const [chosen, setChosen] = useState<string | null>(null);
  const repo = chosen ?? paths[0] ?? ".";
  const loaded = useLoaded(
    async () => readGit(await client.gitStatus(live.id, repo)),
    `git-${live.id}-${repo}-${live.filesVersion}`,
  );
  const [open, setOpen] = useState<string | null>(null);
  const [held, setHeld] = useState<GitState | null>(null);
  if (loaded.value !== null && loaded.value !== held) setHeld(loaded.value);
  const state = loaded.value ?? held;
  return (
    <div className="changes">
      <div className="row panel-bar">
        {paths.length > 1 ? (
          <select aria-label="Repository" value={repo} onChange={(event) => setChosen(event.target.value)}>
            {paths.map((path) => (
              <option key={path}>{path}</option>
            ))}
          </select>
        ) : null}
        <Icon name="branch" size={14} />
        <code>{state?.branch ?? "no branch"}</code>
        {state?.ahead ? <span className="muted small">{state.ahead} ahead</span> : null}
        {state?.behind ? <span className="muted small">{state.behind} behind</span> : null}
        <span className="grow" />
        {state === null ? null : <span className="muted small">{plural(state.changes.length, "file")} changed</span>}
        <button type="button" className="button quiet small icon" aria-label="Look again" onClick={loaded.again}>
          <Icon name="reload" size={14} />
        </button>
      </div>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {state === null ? null : (
        <>
          <IfMember>
            <Act repo={repo} state={state} onDone={loaded.again} />
          </IfMember>
          <ul className="changed" aria-label="Changed files">
            {state.changes.map((change) => (
              <li key={change.path}>
                <button
                  type="button"
                  className="changed-head"
                  aria-expanded={open === change.path}
                  onClick={() => setOpen(open === change.path ? null : change.path)}
                >
                  <span className="fold-mark" data-open={open === change.path ? "" : undefined}>
                    <Icon name="fold" size={12} />
                  </span>
                  <Path path={change.path} />
                  <span className="change-word" data-status={change.status}>
                    {statusWord(change.status)}
                  </span>
                </button>
                {open === change.path ? (
                  <ChangedFile repo={repo} path={change.path} version={live.filesVersion} />
                ) : null}
              </li>
            ))}
          </ul>
          {state.changes.length === 0 ? (
            <p className="muted small tree-note">Nothing changed since the last commit.</p>
          ) : null}
          <Commits state={state} />
        </>
      )}
    </div>
  );
}

/** The name first, for narrow panels: folders are cut before it is. */
function Path({ path }: { path: string }) {
  const at = path.lastIndexOf("/") + 1;
  return (
    <span className="path grow">
      <span className="muted cut">{path.slice(0, at)}</span>
      <span>{path.slice(at)}</span>
    </span>
  );
}

function resultOf(frame: Frame): { isDone: boolean; message: string } {
  const said = frame as { success?: unknown; message?: unknown; code?: unknown };
  return { isDone: said.success === true, message: String(said.message ?? said.code ?? "") };
}

function Act({ repo, state, onDone }: { repo: string; state: GitState; onDone: () => void }) {
  const live = useLive();
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState<"commit" | "push" | null>(null);
  // Where git knows of no branch to compare with, a push makes one.
  const isPushed = state.ahead === 0;
  const isResult = (frame: Frame) => frame.type === "git_result";
  const act = async (what: "commit" | "push", command: Parameters<typeof live.ask>[0]) => {
    setBusy(what);
    try {
      const { isDone, message } = resultOf(await live.ask(command, isResult, 120_000));
      if (!isDone) throw new Error(message);
      if (what === "commit") setMessage("");
      tell(message || (what === "commit" ? "Committed" : "Pushed"));
    } catch (error) {
      complain(error);
    } finally {
      setBusy(null);
      onDone();
    }
  };
  const commit = (event: FormEvent) => {
    event.preventDefault();
    void act("commit", { type: "git_commit", repo, message: message.trim(), include_untracked: true });
  };
  return (
    <form className="row commit" onSubmit={commit}>
      <input
        className="input"
        aria-label="Commit message"
        placeholder={
          state.changes.length === 0 ? "Nothing to commit" : `Commit ${plural(state.changes.length, "file")} as…`
        }
        value={message}
        onChange={(event) => setMessage(event.target.value)}
      />
      <button
        type="submit"
        className="button primary"
        disabled={busy !== null || message.trim() === "" || state.changes.length === 0}
      >
        {busy === "commit" ? "Committing…" : "Commit"}
      </button>
      <button
        type="button"
        className="button"
        disabled={busy !== null || isPushed}
        title={isPushed ? "Everything is pushed" : undefined}
        onClick={() => void act("push", { type: "git_push", repo })}
      >
        {busy === "push" ? "Pushing…" : "Push"}
      </button>
    </form>
  );
}

function Commits({ state }: { state: GitState }) {
  const now = useNow(30_000);
  if (state.commits.length === 0) return null;
  return (
    <section>
      <h3 className="section-name">Commits</h3>
      <ul className="list">
        {state.commits.map((commit) => (
          <li key={commit.sha} className="list-item">
            <code className="muted">{commit.sha.slice(0, 8)}</code>
            <span className="cut grow">{commit.message}</span>
            <span className="muted small">
              {commit.author}, {ago(commit.date, now)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
