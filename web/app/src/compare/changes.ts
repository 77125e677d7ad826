// What each of two forks changed since the commit that both came from.

import type { v1 } from "@nacre/client";
import { client } from "../api";
import { repoPaths } from "../panels/changes";
import { diffIn, type GitState, readGit } from "../panels/git";
import { isAsleep, statusOf } from "../session/status";
import { type FilePatch, readPatch, untracked } from "../text/patch";

/** So many files that git does not know yet are fetched, and so much of each is shown. */
const MOST_NEW = 20;
const LONGEST_NEW = 100_000;

/** A side's repositories by their paths. Null: its sandbox sleeps, and nobody can look. */
export type Repos = ReadonlyMap<string, GitState> | null;

export interface Changes {
  patches: FilePatch[];
  /** Files that git does not know, and that are too many or not for reading. */
  unread: string[];
  /** The commits that it was compared with; null: each with its own last one. */
  since: string[] | null;
  isCut: boolean;
}

export async function reposOf(session: v1.Session): Promise<Repos> {
  if (isAsleep(session.client_status) || statusOf(session) === "unstarted") return null;
  try {
    const all = repoPaths(session).map(
      async (path) => [path, readGit(await client.gitStatus(session.id, path))] as const,
    );
    return new Map(await Promise.all(all));
  } catch {
    return null;
  }
}

/** The newest commit that both have. */
export function forkPoint(one: GitState | undefined, other: GitState | undefined): string | null {
  const theirs = new Set(other?.commits.map(({ sha }) => sha));
  return one?.commits.find(({ sha }) => theirs.has(sha))?.sha ?? null;
}

export async function changesOf(id: string, repos: Repos, rival: Repos): Promise<Changes | null> {
  if (repos === null) return null;
  const found = await Promise.all(
    [...repos].map(([path, state]) => changesIn(id, path, state, forkPoint(state, rival?.get(path)))),
  );
  const since = found.flatMap((one) => one.since ?? []);
  return {
    patches: found.flatMap((one) => one.patches).sort((one, other) => one.path.localeCompare(other.path)),
    unread: found.flatMap((one) => one.unread).sort(),
    since: since.length === found.length ? since : null,
    isCut: found.some((one) => one.isCut),
  };
}

async function changesIn(id: string, repo: string, state: GitState, base: string | null): Promise<Changes> {
  const { diff, isCut } = diffIn(await client.gitDiff(id, repo, undefined, base ?? undefined));
  const unknown = state.changes.filter((change) => change.status === "?").map((change) => change.path);
  const read = await Promise.all(unknown.slice(0, MOST_NEW).map((path) => readNew(id, repo, path)));
  return {
    patches: [...readPatch(diff), ...read.filter((one) => typeof one !== "string")],
    unread: [...read.filter((one) => typeof one === "string"), ...unknown.slice(MOST_NEW)],
    since: base === null ? null : [base],
    isCut,
  };
}

/** Its path alone, where there is nothing to read. */
async function readNew(id: string, repo: string, path: string): Promise<FilePatch | string> {
  try {
    const text = await (await client.readFile(id, repo === "." ? path : `${repo}/${path}`)).text();
    return text.includes("\0") ? path : untracked(path, text.slice(0, LONGEST_NEW));
  } catch {
    return path;
  }
}

/** Those that the other side has just so: they were there before the two went different ways. */
export function shared(patches: readonly FilePatch[], rival: readonly FilePatch[]): ReadonlySet<string> {
  const theirs = new Set(rival.map((patch) => JSON.stringify(patch)));
  return new Set(patches.filter((patch) => theirs.has(JSON.stringify(patch))).map((patch) => patch.path));
}
