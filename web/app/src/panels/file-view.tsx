import { useCallback, useEffect, useRef, useState } from "react";
import { client } from "../api";
import type { Editor } from "../code/editor";
import { bytes } from "../format";
import { IfMember, mayChange } from "../rights";
import { useLive } from "../session/live";
import { complain, tell } from "../ui/toasts";
import { useLoaded } from "../ui/use";
import { Failed } from "./asleep";

/** Longer ones are not shown as text. */
const LONGEST = 2 * 1024 * 1024;
/** Larger pictures are not drawn. */
const LARGEST = 20 * 1024 * 1024;

/** By their names; what they are is for the browser, which draws them as pictures alone. */
const PICTURES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  ico: "image/x-icon",
  svg: "image/svg+xml",
};

function pictureType(path: string): string | null {
  return PICTURES[path.split(".").pop()?.toLowerCase() ?? ""] ?? null;
}

interface Content {
  text: string | null;
  picture: Blob | null;
  size: number;
}

async function read(id: string, path: string): Promise<Content> {
  const response = await client.readFile(id, path);
  const raw = await response.arrayBuffer();
  const type = pictureType(path);
  const picture = type === null || raw.byteLength > LARGEST ? null : new Blob([raw], { type });
  const size = raw.byteLength;
  if (size > LONGEST) return { text: null, picture, size };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(raw), picture, size };
  } catch {
    return { text: null, picture, size };
  }
}

export function FileView({ path, version }: { path: string; version: number }) {
  const live = useLive();
  const [isChanged, setChanged] = useState(false);
  const [isSaving, setSaving] = useState(false);
  /** Of a picture that is text, too: which of both. */
  const [isDrawn, setDrawn] = useState(true);
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
        {loaded.value?.picture && loaded.value.text !== null ? (
          <button type="button" className="button small" aria-pressed={!isDrawn} onClick={() => setDrawn(!isDrawn)}>
            {isDrawn ? "As text" : "As a picture"}
          </button>
        ) : null}
        <button type="button" className="button small" onClick={() => void download().catch(complain)}>
          Download
        </button>
        <IfMember>
          <button type="button" className="button primary small" disabled={!isChanged || isSaving} onClick={save}>
            {isSaving ? "Saving…" : "Save"}
          </button>
        </IfMember>
      </div>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {loaded.value?.picture && isDrawn ? <Picture picture={loaded.value.picture} path={path} /> : null}
      {loaded.value === null || (loaded.value.picture && isDrawn) ? null : loaded.value.text === null ? (
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

/** In an `img`, where nothing that is written in it runs. */
function Picture({ picture, path }: { picture: Blob; path: string }) {
  const [url, setUrl] = useState<string | null>(null);
  const [size, setSize] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(picture);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [picture]);
  if (url === null) return null;
  return (
    <figure className="file-picture">
      <img
        src={url}
        alt={path}
        onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) => setSize(`${naturalWidth} × ${naturalHeight}`)}
      />
      <figcaption className="muted small">
        {size} {bytes(picture.size)}
      </figcaption>
    </figure>
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
        isReadOnly: !mayChange(),
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
