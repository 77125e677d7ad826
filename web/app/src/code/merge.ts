import { MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { codeLook, shadow } from "./look";

const COLLAPSE = { margin: 3, minSize: 6 };

/** Before and after of one file: in one column, or side by side where there is room. */
export function openMerge(host: HTMLElement, path: string, before: string, after: string, isWide: boolean): () => void {
  const root = shadow(host);
  const fixed = [
    lineNumbers(),
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": `Changes of ${path}`, tabindex: "0" }),
    ...codeLook(path),
  ];
  if (isWide) {
    const view = new MergeView({
      root,
      parent: root,
      a: { doc: before, extensions: fixed },
      b: { doc: after, extensions: fixed },
      collapseUnchanged: COLLAPSE,
    });
    return () => view.destroy();
  }
  const view = new EditorView({
    root,
    parent: root,
    doc: after,
    extensions: [
      ...fixed,
      unifiedMergeView({
        original: before,
        mergeControls: false,
        collapseUnchanged: COLLAPSE,
        gutter: true,
        // Where all is new, no part of it is newer.
        highlightChanges: before !== "",
      }),
    ],
  });
  return () => view.destroy();
}
