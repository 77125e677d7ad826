import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { codeLook, shadow } from "./look";

export interface Editor {
  text: () => string;
  dispose: () => void;
}

interface Options {
  path: string;
  text: string;
  isReadOnly: boolean;
  onChange: () => void;
  onSave: () => void;
}

export function openEditor(host: HTMLElement, { path, text, isReadOnly, onChange, onSave }: Options): Editor {
  const root = shadow(host);
  const save = () => {
    onSave();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    doc: text,
    extensions: [
      lineNumbers(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      highlightSelectionMatches(),
      drawSelection(),
      history(),
      bracketMatching(),
      indentOnInput(),
      keymap.of([{ key: "Mod-s", run: save }, ...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
      EditorState.readOnly.of(isReadOnly),
      EditorView.contentAttributes.of({ "aria-label": `Contents of ${path}` }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onChange();
      }),
      ...codeLook(path),
    ],
  });
  return { text: () => view.state.doc.toString(), dispose: () => view.destroy() };
}
