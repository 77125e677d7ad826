import { memo, useEffect, useState } from "react";
import type { Piece } from "./highlight";

let highlight: typeof import("./highlight").highlight | null = null;

/** Code with its colours, as soon as they are there. */
export const Code = memo(function Code({ code, language }: { code: string; language: string }) {
  const [isReady, setReady] = useState(highlight !== null);
  useEffect(() => {
    if (isReady || language === "") return;
    let isCurrent = true;
    void import("./highlight").then((loaded) => {
      highlight = loaded.highlight;
      if (isCurrent) setReady(true);
    });
    return () => {
      isCurrent = false;
    };
  }, [isReady, language]);
  const pieces: Piece[] =
    isReady && highlight !== null && language !== "" ? highlight(code, language) : [{ text: code, className: null }];
  return (
    <code>
      {pieces.map((piece, at) =>
        piece.className === null ? (
          piece.text
        ) : (
          <span key={at} className={piece.className}>
            {piece.text}
          </span>
        ),
      )}
    </code>
  );
});

/** A block of code that can be copied. */
export function CodeBlock({ code, language }: { code: string; language: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(code).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <div className="code-block">
      <div className="code-head">
        <span>{language || "text"}</span>
        <button type="button" className="button quiet small" onClick={copy}>
          {isCopied ? "Copied" : "Copy"}
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard. */}
      <pre tabIndex={0}>
        <Code code={code} language={language} />
      </pre>
    </div>
  );
}
