import { type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Icon } from "../ui/icon";
import type { Row } from "./rows";
import { offsets, rowAt, windowOf } from "./window";

const SPARE = 900;
/** So near to the end counts as at the end. */
const NEAR = 40;

interface Props {
  rows: readonly Row[];
  draw: (row: Row) => ReactNode;
  onTop: () => void;
  /** After the last row. */
  children: ReactNode;
}

function guess(row: Row | undefined): number {
  if (row?.kind === "user") return 80;
  if (row?.kind === "end" || row?.kind === "note") return 34;
  return row?.kind === "part" && row.content.kind === "text" ? 72 : 38;
}

/** Rows of a conversation, of which only those near the screen exist. Stays at the end while it is there. */
export function RowList({ rows, draw, onTop, children }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const measured = useRef(new Map<string, number>());
  const [view, setView] = useState({ top: 0, height: 800 });
  const [, setMeasures] = useState(0);
  const isAtEnd = useRef(true);
  const anchor = useRef<{ key: string; above: number } | null>(null);
  const [hasEnd, setHasEnd] = useState(true);

  const keys = useMemo(() => rows.map((row) => row.key), [rows]);
  const starts = offsets(keys, { guess: (row) => guess(rows[row]), measured: measured.current });
  const { first, end, above, below } = windowOf(starts, view.top, view.height, SPARE);
  const latest = useRef({ keys, starts });
  latest.current = { keys, starts };

  const look = useCallback(() => {
    const element = frame.current;
    if (element === null) return;
    const { scrollTop, clientHeight, scrollHeight } = element;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR;
    setHasEnd(isAtEnd.current);
    const { keys, starts } = latest.current;
    const row = rowAt(starts, scrollTop);
    const key = keys[row];
    anchor.current = key === undefined ? null : { key, above: scrollTop - (starts[row] ?? 0) };
    setView((old) =>
      old.top === scrollTop && old.height === clientHeight ? old : { top: scrollTop, height: clientHeight },
    );
    if (scrollTop < 300) onTop();
  }, [onTop]);

  const observer = useMemo(() => {
    return new ResizeObserver((entries) => {
      let isNew = false;
      for (const entry of entries) {
        const key = (entry.target as HTMLElement).dataset["key"];
        const height = entry.borderBoxSize[0]?.blockSize ?? 0;
        if (key === undefined || height === 0) continue;
        if (Math.abs((measured.current.get(key) ?? -1) - height) < 0.5) continue;
        measured.current.set(key, height);
        isNew = true;
      }
      if (isNew) setMeasures((count) => count + 1);
    });
  }, []);
  useEffect(() => () => observer.disconnect(), [observer]);

  // What is looked at stays where it is, whatever grows above it; at the end, the end does.
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    if (isAtEnd.current) {
      if (element.scrollTop + element.clientHeight < element.scrollHeight - 1) element.scrollTop = element.scrollHeight;
      return;
    }
    const held = anchor.current;
    const row = held === null ? -1 : keys.indexOf(held.key);
    if (held === null || row < 0) return;
    const wanted = (starts[row] ?? 0) + held.above;
    if (Math.abs(element.scrollTop - wanted) > 1) element.scrollTop = wanted;
  });

  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const resized = new ResizeObserver(() => {
      if (isAtEnd.current) element.scrollTop = element.scrollHeight;
      look();
    });
    resized.observe(element);
    return () => resized.disconnect();
  }, [look]);

  const toEnd = () => {
    const element = frame.current;
    if (element === null) return;
    isAtEnd.current = true;
    element.scrollTop = element.scrollHeight;
  };

  return (
    <div className="rows-frame">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard. */}
      <div className="rows" ref={frame} onScroll={look} tabIndex={0} role="log" aria-label="Conversation">
        <div style={{ height: above }} />
        {rows.slice(first, end).map((row) => (
          <Measured key={row.key} name={row.key} observer={observer}>
            {draw(row)}
          </Measured>
        ))}
        <div style={{ height: below }} />
        {children}
      </div>
      {/* Beside what is read, and never over it. */}
      {hasEnd ? null : (
        <div className="to-end">
          <button type="button" className="button small" onClick={toEnd}>
            <Icon name="down" size={13} />
            Newest
          </button>
        </div>
      )}
    </div>
  );
}

function Measured({ name, observer, children }: { name: string; observer: ResizeObserver; children: ReactNode }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    observer.observe(element);
    return () => observer.unobserve(element);
  }, [observer]);
  return (
    <div className="measured" ref={ref} data-key={name}>
      {children}
    </div>
  );
}
