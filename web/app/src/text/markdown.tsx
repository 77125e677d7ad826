// Markdown of an agent, which may say anything. It becomes elements and never markup: tags are shown
// as they were written, addresses lead only where a browser asks before it goes, images are links.

import { type MarkedToken, marked, type Token, type Tokens } from "marked";
import { Fragment, memo, type ReactNode } from "react";
import { CodeBlock } from "./code";

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      {blocks(text).map((token, at) => (
        <Block key={at} raw={token.raw} token={token} />
      ))}
    </div>
  );
});

export function blocks(text: string): Token[] {
  return marked.lexer(text, { gfm: true, breaks: false });
}

/** While text streams in, only the block that grows is drawn again. */
const Block = memo(
  function Block({ token }: { raw: string; token: Token }) {
    return <>{block(token as MarkedToken)}</>;
  },
  (old, next) => old.raw === next.raw,
);

function block(token: MarkedToken): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      const Heading = HEADINGS[Math.min(token.depth, 3) - 1] ?? "h5";
      return <Heading>{inline(token.tokens)}</Heading>;
    }
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? inline(token.tokens) : token.text;
    case "code":
      return <CodeBlock code={token.text} language={(token.lang ?? "").split(/\s/)[0] ?? ""} />;
    case "blockquote":
      return <blockquote>{nested(token.tokens)}</blockquote>;
    case "list":
      return token.ordered ? (
        <ol start={token.start === "" ? 1 : token.start}>{items(token)}</ol>
      ) : (
        <ul>{items(token)}</ul>
      );
    case "table":
      return <Table token={token} />;
    case "hr":
      return <hr />;
    case "html":
      return <p>{token.raw}</p>;
    default:
      return token.raw;
  }
}

const HEADINGS = ["h3", "h4", "h5"] as const;

function nested(tokens: Token[]): ReactNode {
  return tokens.map((token, at) => <Fragment key={at}>{block(token as MarkedToken)}</Fragment>);
}

function items(list: Tokens.List): ReactNode {
  return list.items.map((item, at) => (
    <li key={at} className={item.task ? "task" : undefined}>
      {item.task ? (
        <input type="checkbox" checked={item.checked === true} readOnly disabled aria-label={plain(item.text)} />
      ) : null}
      {nested(item.tokens.filter((token) => token.type !== "checkbox"))}
    </li>
  ));
}

function Table({ token }: { token: Tokens.Table }) {
  return (
    <div className="table-frame">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, at) => (
              <th key={at}>{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column}>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[]): ReactNode {
  return tokens.map((token, at) => <Fragment key={at}>{span(token as MarkedToken)}</Fragment>);
}

function span(token: MarkedToken): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return <Away href={token.href}>{inline(token.tokens)}</Away>;
    case "image":
      return <Away href={token.href}>{token.text || token.href}</Away>;
    case "text":
      return token.tokens ? inline(token.tokens) : plain(token.text);
    case "escape":
      return plain(token.text);
    default:
      return token.raw;
  }
}

function Away({ href, children }: { href: string; children: ReactNode }) {
  if (!isHarmless(href)) return <span>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noreferrer noopener nofollow">
      {children}
    </a>
  );
}

/** Where a link may lead: never to a script, a file, or a page of our own that does something. */
export function isHarmless(href: string): boolean {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(href).protocol);
  } catch {
    return false;
  }
}

/** The lexer leaves entities as they were written. */
function plain(text: string): string {
  return text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");
}
