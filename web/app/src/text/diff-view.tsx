import { memo, useMemo } from "react";
import { counts, diffLines, hunks } from "./diff";

const MOST = 600;

/** An edit as lines that went and came. */
export const DiffView = memo(function DiffView({ before, after }: { before: string; after: string }) {
  const shown = useMemo(() => hunks(diffLines(before, after)), [before, after]);
  return (
    <div className="diff">
      {shown.slice(0, MOST).map((line, at) =>
        line === null ? (
          <div key={at} className="diff-gap">
            ⋯
          </div>
        ) : (
          <div key={at} className="diff-line" data-kind={line.kind}>
            <span className="diff-sign">{line.kind === "new" ? "+" : line.kind === "gone" ? "−" : " "}</span>
            <span className="diff-text">{line.text}</span>
          </div>
        ),
      )}
      {shown.length > MOST ? <div className="diff-gap">{shown.length - MOST} more lines</div> : null}
    </div>
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
