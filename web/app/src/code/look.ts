// How the code editor looks, and what it knows of languages. Shared by the editor and by the diff.

import { css } from "@codemirror/lang-css";
import { go } from "@codemirror/lang-go";
import { html } from "@codemirror/lang-html";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { rust } from "@codemirror/lang-rust";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--code-comment)" },
  { tag: [tags.function(tags.variableName), tags.typeName, tags.tagName, tags.heading], color: "var(--code-name)" },
  { tag: tags.heading, fontWeight: "600" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--code-name)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--raised)", color: "var(--ink)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--accent)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--ink-faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--hover) 55%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--chosen) !important" },
  ".cm-panels": { backgroundColor: "var(--sunk)", color: "var(--ink)" },
  ".cm-changedLine": { backgroundColor: "var(--good-soft) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-soft) !important" },
  ".cm-changedText": { background: "color-mix(in srgb, var(--good) 24%, transparent) !important" },
  ".cm-deletedText": { background: "color-mix(in srgb, var(--bad) 24%, transparent) !important" },
  ".cm-insertedLine": { backgroundColor: "var(--good-soft) !important", textDecoration: "none" },
  ".cm-collapsedLines": { background: "var(--sunk)", color: "var(--ink-faint)" },
});

export function codeLook(path: string): Extension[] {
  return [look, syntaxHighlighting(colours), ...language(path)];
}

function language(path: string): Extension[] {
  switch (path.split(".").pop()?.toLowerCase()) {
    case "js":
    case "mjs":
    case "cjs":
    case "jsx":
      return [javascript({ jsx: true })];
    case "ts":
    case "mts":
      return [javascript({ typescript: true })];
    case "tsx":
      return [javascript({ typescript: true, jsx: true })];
    case "py":
      return [python()];
    case "rs":
      return [rust()];
    case "go":
      return [go()];
    case "json":
      return [json()];
    case "md":
      return [markdown()];
    case "html":
    case "vue":
    case "svg":
      return [html()];
    case "css":
      return [css()];
    case "yaml":
    case "yml":
      return [yaml()];
    default:
      return [];
  }
}

/** Its styles are sheets of a shadow root: the page's policy allows no style that is written into it. */
export function shadow(host: HTMLElement): ShadowRoot {
  return host.shadowRoot ?? host.attachShadow({ mode: "open" });
}
