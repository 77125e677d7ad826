import { memo, useMemo } from "react";
import { counts, diffLines, hunks } from "./diff";
import { DiffLines } from "./diff-lines";

const MOST = 600;

interface Props {
  before: string;
  after: string;
  /** The two are whole files, and not a part of one. */
  isWhole: boolean;
}

/** An edit as lines that went and came. */
export const DiffView = memo(function DiffView({ before, after, isWhole }: Props) {
  const shown = useMemo(
    () => hunks(diffLines(before, after)).map((line) => line ?? ({ kind: "gap", text: "⋯" } as const)),
    [before, after],
  );
  return (
    <DiffLines lines={shown.slice(0, MOST)} isNumbered={isWhole}>
      {shown.length > MOST ? <div className="diff-gap">{shown.length - MOST} more lines</div> : null}
    </DiffLines>
  );
});

export function DiffCounts({ before, after }: { before: string; after: string }) {
  const { added, removed } = useMemo(() => counts(diffLines(before, after)), [before, after]);
  return <Counts added={added} removed={removed} />;
}

export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className="diff-counts">
      <span className="added">+{added}</span> <span className="removed">−{removed}</span>
      <span className="visually-hidden">
        {added} lines added, {removed} removed
      </span>
    </span>
  );
}
