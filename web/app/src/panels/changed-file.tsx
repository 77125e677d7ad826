import { useEffect, useRef } from "react";
import { client, isStatus } from "../api";
import { useLive } from "../session/live";
import { readPatch, undo } from "../text/patch";
import { useLoaded } from "../ui/use";
import { Failed } from "./asleep";
import { diffIn } from "./git";

interface Sides {
  before: string;
  after: string;
  /** Where the two sides could not be told: the patch itself. */
  raw: string | null;
}

async function sides(id: string, repo: string, path: string): Promise<Sides> {
  const { diff } = diffIn(await client.gitDiff(id, repo, path));
  const after = await textOf(id, repo === "." ? path : `${repo}/${path}`);
  const patch = readPatch(diff)[0];
  // What git does not know yet is all new.
  if (patch === undefined) return { before: "", after: after ?? "", raw: null };
  const before = undo(after ?? "", patch);
  return before === null ? { before: "", after: "", raw: diff } : { before, after: after ?? "", raw: null };
}

async function textOf(id: string, path: string): Promise<string | null> {
  try {
    return await (await client.readFile(id, path)).text();
  } catch (error) {
    if (isStatus(error, 404)) return null;
    throw error;
  }
}

export function ChangedFile({ repo, path, version }: { repo: string; path: string; version: number }) {
  const live = useLive();
  const loaded = useLoaded(() => sides(live.id, repo, path), `diff-${repo}-${path}-${version}`);
  if (loaded.error) return <Failed error={loaded.error} onAgain={loaded.again} />;
  if (loaded.value === null) return <p className="muted small tree-note">Loading…</p>;
  if (loaded.value.raw !== null) return <pre className="tool-output">{loaded.value.raw}</pre>;
  return <Merge path={path} before={loaded.value.before} after={loaded.value.after} />;
}

export function Merge({ path, before, after }: { path: string; before: string; after: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    let close: (() => void) | null = null;
    let isGone = false;
    void import("../code/merge").then(({ openMerge }) => {
      if (!isGone) close = openMerge(element, path, before, after, element.clientWidth > 1000);
    });
    return () => {
      isGone = true;
      close?.();
    };
  }, [path, before, after]);
  return <div className="merge-host" ref={host} />;
}
