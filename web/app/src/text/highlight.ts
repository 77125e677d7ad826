import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

/** A piece of code of one colour. */
export interface Piece {
  text: string;
  className: string | null;
}

/** Longer code is shown in one colour. */
const LONGEST = 60_000;

const known = createLowlight({
  bash,
  c,
  css,
  diff,
  dockerfile,
  go,
  ini,
  java,
  javascript,
  json,
  markdown,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
});
known.registerAlias({
  bash: ["sh", "shell", "console", "zsh"],
  ini: ["toml"],
  typescript: ["tsx"],
  javascript: ["jsx", "mjs"],
  xml: ["html", "svg"],
  c: ["cpp", "h"],
});

export function highlight(code: string, language: string): Piece[] {
  const name = language.toLowerCase();
  if (code.length > LONGEST || !known.registered(name)) return [{ text: code, className: null }];
  const pieces: Piece[] = [];
  const walk = (nodes: readonly unknown[], className: string | null) => {
    for (const node of nodes as Node[]) {
      if (node.type === "text") pieces.push({ text: node.value ?? "", className });
      else if (node.type === "element") walk(node.children ?? [], node.properties?.className?.join(" ") ?? className);
    }
  };
  walk(known.highlight(name, code).children, null);
  return pieces;
}

interface Node {
  type: string;
  value?: string;
  children?: unknown[];
  properties?: { className?: string[] };
}

const BY_ENDING: Record<string, string> = {
  js: "javascript",
  jsx: "javascript",
  mjs: "javascript",
  cjs: "javascript",
  ts: "typescript",
  tsx: "typescript",
  py: "python",
  rb: "ruby",
  rs: "rust",
  sh: "bash",
  yml: "yaml",
  md: "markdown",
  html: "xml",
  svg: "xml",
  toml: "ini",
  h: "c",
};

export function languageOf(path: string): string {
  const ending = path.split("/").pop()?.split(".").pop()?.toLowerCase() ?? "";
  return BY_ENDING[ending] ?? ending;
}
