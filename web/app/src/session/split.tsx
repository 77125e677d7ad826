import { type KeyboardEvent, type PointerEvent, type ReactNode, useRef, useState } from "react";

const KEY = "nacre-split";

/** Two sides with a bar between them that a pointer or the arrow keys move. On a phone, one at a time. */
export function Split({ isOpen, side, children }: { isOpen: boolean; side: ReactNode; children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null);
  const [share, setShare] = useState(() => clamp(Number(localStorage.getItem(KEY) ?? 46)));
  const move = (next: number) => {
    const wanted = clamp(next);
    setShare(wanted);
    localStorage.setItem(KEY, String(wanted));
  };
  const onPointer = (event: PointerEvent<HTMLDivElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = frame.current?.getBoundingClientRect();
    if (box) move(((event.clientX - box.left) / box.width) * 100);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft") move(share - 4);
    if (event.key === "ArrowRight") move(share + 4);
  };
  return (
    <div className="split" ref={frame} data-open={isOpen ? "" : undefined}>
      <div className="split-main" style={isOpen ? { flexBasis: `${share}%` } : undefined}>
        {children}
      </div>
      {isOpen ? (
        <>
          {/* biome-ignore lint/a11y/useSemanticElements: a separator that moves has no element of its own. */}
          <div
            className="split-bar"
            role="separator"
            tabIndex={0}
            aria-label="Width of the conversation"
            aria-orientation="vertical"
            aria-valuenow={Math.round(share)}
            aria-valuemin={20}
            aria-valuemax={80}
            onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
            onPointerMove={onPointer}
            onKeyDown={onKey}
          />
          <div className="split-side">{side}</div>
        </>
      ) : null}
    </div>
  );
}

function clamp(share: number): number {
  return Number.isFinite(share) ? Math.min(80, Math.max(20, share)) : 46;
}
