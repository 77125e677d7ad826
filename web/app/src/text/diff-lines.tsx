import type { ReactNode } from "react";

export interface DiffLine {
  kind: "same" | "gone" | "new";
  text: string;
  before: number | null;
  after: number | null;
}

/** Lines that were left out, or what comes after them. */
export interface DiffGap {
  kind: "gap";
  text: string;
}

const SIGNS = { same: " ", gone: "−", new: "+" } as const;

interface Props {
  lines: readonly (DiffLine | DiffGap)[];
  /** False where nobody knows at which line of its file it begins. */
  isNumbered: boolean;
  children?: ReactNode;
}

export function DiffLines({ lines, isNumbered, children }: Props) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard.
    <section className="diff" tabIndex={0} aria-label="Lines that changed">
      {lines.map((line, at) =>
        line.kind === "gap" ? (
          <div key={at} className="diff-gap">
            {line.text}
          </div>
        ) : (
          <div key={at} className="diff-line" data-kind={line.kind}>
            {isNumbered ? (
              <>
                <span className="diff-number">{line.before}</span>
                <span className="diff-number">{line.after}</span>
              </>
            ) : null}
            <span className="diff-sign">{SIGNS[line.kind]}</span>
            <span className="diff-text">{line.text}</span>
          </div>
        ),
      )}
      {children}
    </section>
  );
}
