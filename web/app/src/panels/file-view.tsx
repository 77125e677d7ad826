import { useCallback, useEffect, useRef, useState } from "react";
import { client } from "../api";
import type { Editor } from "../code/editor";
import { bytes } from "../format";
import { useLive } from "../session/live";
import { complain, tell } from "../ui/toasts";
import { useLoaded } from "../ui/use";
import { Failed } from "./asleep";

/** Longer ones are not shown as text. */
const LONGEST = 2 * 1024 * 1024;

interface Content {
  text: string | null;
  size: number;
}

async function read(id: string, path: string): Promise<Content> {
  const response = await client.readFile(id, path);
  const raw = await response.arrayBuffer();
  if (raw.byteLength > LONGEST) return { text: null, size: raw.byteLength };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(raw), size: raw.byteLength };
  } catch {
    return { text: null, size: raw.byteLength };
  }
}

export function FileView({ path, version }: { path: string; version: number }) {
  const live = useLive();
  const [isChanged, setChanged] = useState(false);
  const [isSaving, setSaving] = useState(false);
  // What somebody writes here is not taken away by what the agent writes.
  const shownVersion = useRef(version);
  if (!isChanged) shownVersion.current = version;
  const loaded = useLoaded(() => read(live.id, path), `file-${path}-${shownVersion.current}`);
  const editor = useRef<Editor | null>(null);
  const save = useCallback(() => {
    const text = editor.current?.text();
    if (text === undefined) return;
    setSaving(true);
    client
      .writeFile(live.id, path, new TextEncoder().encode(text))
      .then(() => {
        setChanged(false);
        tell(`${path} is saved`);
      })
      .catch(complain)
      .finally(() => setSaving(false));
  }, [live.id, path]);
  const download = async () => {
    const response = await client.readFile(live.id, path);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = path.split("/").pop() ?? "file";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div className="file-view">
      <div className="row panel-bar">
        <span className="cut mono grow">
          {path}
          {isChanged ? " •" : ""}
        </span>
        {version !== shownVersion.current ? <span className="small muted">changed in the sandbox</span> : null}
        <button type="button" className="button small" onClick={() => void download().catch(complain)}>
          Download
        </button>
        <button type="button" className="button primary small" disabled={!isChanged || isSaving} onClick={save}>
          {isSaving ? "Saving…" : "Save"}
        </button>
      </div>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {loaded.value === null ? null : loaded.value.text === null ? (
        <div className="empty">
          <p>{bytes(loaded.value.size)} that are not shown as text.</p>
        </div>
      ) : (
        <Text
          path={path}
          text={loaded.value.text}
          onEditor={(next) => {
            editor.current = next;
          }}
          onChange={() => setChanged(true)}
          onSave={save}
        />
      )}
    </div>
  );
}

interface TextProps {
  path: string;
  text: string;
  onEditor: (editor: Editor | null) => void;
  onChange: () => void;
  onSave: () => void;
}

function Text({ path, text, onEditor, onChange, onSave }: TextProps) {
  const host = useRef<HTMLDivElement>(null);
  const latest = useRef({ onEditor, onChange, onSave });
  latest.current = { onEditor, onChange, onSave };
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    let editor: Editor | null = null;
    let isGone = false;
    void import("../code/editor").then(({ openEditor }) => {
      if (isGone) return;
      editor = openEditor(element, {
        path,
        text,
        isReadOnly: false,
        onChange: () => latest.current.onChange(),
        onSave: () => latest.current.onSave(),
      });
      latest.current.onEditor(editor);
    });
    return () => {
      isGone = true;
      editor?.dispose();
      latest.current.onEditor(null);
    };
  }, [path, text]);
  return <div className="code-host" ref={host} />;
}
