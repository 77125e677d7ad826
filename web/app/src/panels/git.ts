// What a sandbox says about its repositories. Everything from there is checked before it is used.

export interface GitState {
  branch: string | null;
  ahead: number | null;
  behind: number | null;
  changes: { path: string; status: string; isStaged: boolean }[];
  commits: { sha: string; message: string; author: string; date: string }[];
  isBusy: boolean;
  isTruncated: boolean;
}

export function readGit(value: unknown): GitState {
  const from = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const changes = new Map<string, GitState["changes"][number]>();
  for (const one of list(from["staged_changes"])) add(one, text(one["index_status"]), true);
  for (const one of list(from["unstaged_changes"])) add(one, text(one["worktree_status"]), false);
  for (const path of names(from["untracked_files"])) changes.set(path, { path, status: "?", isStaged: false });
  for (const path of names(from["conflicted_files"])) changes.set(path, { path, status: "U", isStaged: false });
  function add(one: Record<string, unknown>, status: string, isStaged: boolean): void {
    const path = text(one["path"]);
    if (path !== "" && !changes.has(path)) changes.set(path, { path, status, isStaged });
  }
  return {
    branch: typeof from["branch"] === "string" ? from["branch"] : null,
    ahead: number(from["ahead"]),
    behind: number(from["behind"]),
    changes: [...changes.values()].sort((one, other) => one.path.localeCompare(other.path)),
    commits: list(from["commits"]).map((one) => ({
      sha: text(one["sha"]),
      message: text(one["message"]),
      author: text(one["author"]),
      date: text(one["date"]),
    })),
    isBusy: from["is_busy"] === true,
    isTruncated: from["truncated"] === true,
  };
}

export function diffIn(value: unknown): { diff: string; isCut: boolean } {
  const from = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return { diff: text(from["diff"]), isCut: from["truncated"] === true };
}

const STATUSES: Record<string, string> = {
  M: "modified",
  A: "added",
  D: "deleted",
  R: "renamed",
  "?": "new",
  U: "in conflict",
};

export function statusWord(status: string): string {
  return STATUSES[status] ?? status;
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "object" && one !== null) : [];
}

function names(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
