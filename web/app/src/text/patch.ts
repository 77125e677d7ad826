// Patches as git writes them.

import type { DiffGap, DiffLine } from "./diff-lines";

export interface Hunk {
  before: number;
  after: number;
  lines: string[];
}

export interface FilePatch {
  path: string;
  /** Where it was, if it moved. */
  from: string | null;
  kind: "added" | "deleted" | "modified" | "binary";
  hunks: Hunk[];
  added: number;
  removed: number;
}

export function readPatch(text: string): FilePatch[] {
  const files: FilePatch[] = [];
  let file: FilePatch | null = null;
  let hunk: Hunk | null = null;
  let left = { before: 0, after: 0 };
  for (const line of text.split("\n")) {
    if (hunk !== null && file !== null && (left.before > 0 || left.after > 0 || line.startsWith("\\"))) {
      const kind = line[0] ?? " ";
      if (kind === "+" || kind === "-" || kind === " " || kind === "\\" || line === "") {
        hunk.lines.push(line === "" ? " " : line);
        if (kind === "+") file.added += 1;
        if (kind === "-") file.removed += 1;
        if (kind !== "+" && kind !== "\\") left.before -= 1;
        if (kind !== "-" && kind !== "\\") left.after -= 1;
        continue;
      }
    }
    if (line.startsWith("diff --git ")) {
      const [from, to] = names(line.slice("diff --git ".length));
      file = { path: to, from: from === to ? null : from, kind: "modified", hunks: [], added: 0, removed: 0 };
      files.push(file);
      hunk = null;
      continue;
    }
    if (file === null) continue;
    if (line.startsWith("new file mode")) file.kind = "added";
    else if (line.startsWith("deleted file mode")) file.kind = "deleted";
    else if (line.startsWith("Binary files ")) file.kind = "binary";
    else if (line.startsWith("+++ ") && !line.endsWith("/dev/null")) file.path = bare(line.slice(4), "b/");
    else if (line.startsWith("--- ") && !line.endsWith("/dev/null")) {
      const from = bare(line.slice(4), "a/");
      if (file.kind === "deleted") file.path = from;
    } else {
      const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (head === null) continue;
      left = { before: Number(head[2] ?? 1), after: Number(head[4] ?? 1) };
      hunk = { before: Number(head[1]), after: Number(head[3]), lines: [] };
      file.hunks.push(hunk);
    }
  }
  return files;
}

/** With the numbers of lines, and what stands between hunks. */
export function numberedLines(patch: FilePatch): (DiffLine | DiffGap)[] {
  const out: (DiffLine | DiffGap)[] = [];
  patch.hunks.forEach((hunk, place) => {
    if (place > 0 || hunk.before > 1) out.push({ kind: "gap", text: `@@ line ${hunk.after}` });
    let { before, after } = hunk;
    for (const line of hunk.lines) {
      const text = line.slice(1);
      if (line.startsWith("\\")) out.push({ kind: "gap", text: "no new line at the end" });
      else if (line.startsWith("+")) out.push({ kind: "new", text, before: null, after: after++ });
      else if (line.startsWith("-")) out.push({ kind: "gone", text, before: before++, after: null });
      else out.push({ kind: "same", text, before: before++, after: after++ });
    }
  });
  return out;
}

/** A file that git does not know yet is all new. */
export function untracked(path: string, text: string): FilePatch {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const hunk: Hunk = { before: 0, after: 1, lines: lines.map((line) => `+${line}`) };
  return { path, from: null, kind: "added", hunks: [hunk], added: lines.length, removed: 0 };
}

/** What a file was, from what it is and what changed. Null if the patch does not belong to it. */
export function undo(now: string, patch: FilePatch): string | null {
  if (patch.kind === "binary") return null;
  const endsWithLine = now.endsWith("\n");
  const lines = now === "" ? [] : now.split("\n");
  if (endsWithLine) lines.pop();
  const out: string[] = [];
  let at = 0;
  let hasEnd = lines.length > 0 ? endsWithLine : true;
  for (const hunk of patch.hunks) {
    const start = Math.max(0, hunk.after - (hunk.lines.some((line) => !line.startsWith("-")) ? 1 : 0));
    if (start < at || start > lines.length) return null;
    out.push(...lines.slice(at, start));
    at = start;
    let last = " ";
    for (const line of hunk.lines) {
      const kind = line[0];
      const text = line.slice(1);
      if (kind === "\\") {
        if (last === "-") hasEnd = false;
        if (last === "+") hasEnd = true;
        continue;
      }
      last = kind ?? " ";
      if (kind !== "-") {
        if (lines[at] !== text) return null;
        at += 1;
      }
      if (kind !== "+") out.push(text);
    }
  }
  out.push(...lines.slice(at));
  if (out.length === 0) return "";
  return out.join("\n") + (hasEnd ? "\n" : "");
}

function names(text: string): [string, string] {
  const half = /^a\/(.*) b\/(.*)$/.exec(text);
  return half === null ? [text, text] : [half[1] ?? text, half[2] ?? text];
}

function bare(name: string, prefix: string): string {
  const plain = name.replace(/^"(.*)"$/, "$1").replace(/\t$/, "");
  return plain.startsWith(prefix) ? plain.slice(prefix.length) : plain;
}
