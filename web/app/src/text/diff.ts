// Lines of two texts, side by side: what went, what came, what stayed.

export type Line = { kind: "same" | "gone" | "new"; text: string; before: number | null; after: number | null };

/** Beyond this many lines the middle is shown as all gone and all new: exact is not worth the time. */
const MOST_EXACT = 2000;

export function diffLines(before: string, after: string): Line[] {
  const one = lines(before);
  const other = lines(after);
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  let end = 0;
  while (
    end < one.length - start &&
    end < other.length - start &&
    one[one.length - 1 - end] === other[other.length - 1 - end]
  ) {
    end += 1;
  }
  const out: Line[] = [];
  const same = (at: number, to: number) =>
    out.push({ kind: "same", text: one[at] ?? "", before: at + 1, after: to + 1 });
  for (let at = 0; at < start; at += 1) same(at, at);
  const middle = steps(one.slice(start, one.length - end), other.slice(start, other.length - end));
  let at = start;
  let to = start;
  for (const step of middle) {
    if (step === "same") {
      same(at, to);
      at += 1;
      to += 1;
    } else if (step === "gone") {
      out.push({ kind: "gone", text: one[at] ?? "", before: at + 1, after: null });
      at += 1;
    } else {
      out.push({ kind: "new", text: other[to] ?? "", before: null, after: to + 1 });
      to += 1;
    }
  }
  for (; at < one.length; at += 1, to += 1) same(at, to);
  return out;
}

/** Only what changed, with a few lines around it; null where lines were left out. */
export function hunks(all: Line[], around = 3): (Line | null)[] {
  const isNear = new Array<boolean>(all.length).fill(false);
  all.forEach((line, at) => {
    if (line.kind === "same") return;
    for (let near = Math.max(0, at - around); near <= Math.min(all.length - 1, at + around); near += 1) {
      isNear[near] = true;
    }
  });
  const out: (Line | null)[] = [];
  all.forEach((line, at) => {
    if (isNear[at]) out.push(line);
    else if (out.length > 0 && out[out.length - 1] !== null) out.push(null);
  });
  if (out[out.length - 1] === null) out.pop();
  return out;
}

export function counts(all: Line[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of all) {
    if (line.kind === "new") added += 1;
    if (line.kind === "gone") removed += 1;
  }
  return { added, removed };
}

function lines(text: string): string[] {
  if (text === "") return [];
  const all = text.split("\n");
  if (all[all.length - 1] === "") all.pop();
  return all;
}

type Step = "same" | "gone" | "new";

/** The longest common subsequence, by a table. */
function steps(one: string[], other: string[]): Step[] {
  if (one.length + other.length > MOST_EXACT) {
    return [...one.map((): Step => "gone"), ...other.map((): Step => "new")];
  }
  const width = other.length + 1;
  const table = new Uint16Array((one.length + 1) * width);
  const cell = (at: number, to: number) => table[at * width + to] ?? 0;
  for (let at = one.length - 1; at >= 0; at -= 1) {
    for (let to = other.length - 1; to >= 0; to -= 1) {
      table[at * width + to] =
        one[at] === other[to] ? cell(at + 1, to + 1) + 1 : Math.max(cell(at + 1, to), cell(at, to + 1));
    }
  }
  const out: Step[] = [];
  let at = 0;
  let to = 0;
  while (at < one.length || to < other.length) {
    if (at < one.length && to < other.length && one[at] === other[to]) {
      out.push("same");
      at += 1;
      to += 1;
    } else if (at < one.length && (to >= other.length || cell(at + 1, to) >= cell(at, to + 1))) {
      out.push("gone");
      at += 1;
    } else {
      out.push("new");
      to += 1;
    }
  }
  return out;
}
