import type { v1 } from "@nacre/client";
import { type DragEvent, useCallback, useState } from "react";
import { client } from "../api";
import { bytes } from "../format";
import { IfMember, useMayChange } from "../rights";
import { useLive } from "../session/live";
import { Icon } from "../ui/icon";
import { complain, tell } from "../ui/toasts";
import { useLoaded } from "../ui/use";
import { Failed, WhenAwake } from "./asleep";
import { FileView } from "./file-view";

export default function FilesPanel() {
  return (
    <WhenAwake what="The list of files">
      <Files />
    </WhenAwake>
  );
}

function Files() {
  const live = useLive();
  const [open, setOpen] = useState<string | null>(null);
  const [version, setVersion] = useState(0);
  const [isOver, setOver] = useState(false);
  const isMember = useMayChange();
  const upload = useCallback(
    async (files: File[], folder: string) => {
      for (const file of files) await client.writeFile(live.id, join(folder, file.name), file);
      setVersion((version) => version + 1);
      tell(files.length === 1 ? `${files[0]?.name} is there` : `${files.length} files are there`);
    },
    [live.id],
  );
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!isMember) return;
    void upload([...event.dataTransfer.files], "").catch(complain);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping has its button, too.
    <div
      className="files"
      data-over={isOver ? "" : undefined}
      onDrop={onDrop}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(isMember);
      }}
      onDragLeave={() => setOver(false)}
    >
      <div className="tree-frame">
        <div className="row panel-bar">
          <span className="grow muted">Workspace</span>
          <IfMember>
            <label className="button small">
              Upload
              <input
                type="file"
                multiple
                className="visually-hidden"
                onChange={(event) => {
                  void upload([...(event.target.files ?? [])], "").catch(complain);
                  event.target.value = "";
                }}
              />
            </label>
          </IfMember>
          <button
            type="button"
            className="button quiet small icon"
            aria-label="Look again"
            onClick={() => setVersion(version + 1)}
          >
            <Icon name="reload" size={14} />
          </button>
        </div>
        <Folder path="" open={open} onOpen={setOpen} version={`${version}-${live.filesVersion}`} />
      </div>
      {open === null ? (
        <div className="empty">
          <p>
            {isMember
              ? "Choose a file to read or change it. Files dropped here are uploaded."
              : "Choose a file to read it."}
          </p>
        </div>
      ) : (
        <FileView key={open} path={open} version={live.filesVersion} />
      )}
    </div>
  );
}

interface FolderProps {
  path: string;
  open: string | null;
  onOpen: (path: string) => void;
  version: string;
}

function Folder({ path, open, onOpen, version }: FolderProps) {
  const live = useLive();
  const loaded = useLoaded(() => client.listFiles(live.id, path), `files-${live.id}-${path}-${version}`);
  const [held, setHeld] = useState<v1.FileEntry[]>([]);
  if (loaded.value !== null && held !== loaded.value.entries) setHeld(loaded.value.entries);
  const entries = [...(loaded.value?.entries ?? held)].sort(byKind);
  if (loaded.error) return <Failed error={loaded.error} onAgain={loaded.again} />;
  if (loaded.value !== null && entries.length === 0) return <p className="muted small tree-note">empty</p>;
  return (
    <ul className="tree" aria-label={path === "" ? "Workspace" : path}>
      {entries.map((entry) => (
        <Entry
          key={entry.name}
          entry={entry}
          path={join(path, entry.name)}
          open={open}
          onOpen={onOpen}
          version={version}
        />
      ))}
    </ul>
  );
}

function Entry({ entry, path, open, onOpen, version }: FolderProps & { entry: v1.FileEntry }) {
  const [isOpen, setOpen] = useState(false);
  if (entry.kind === "directory") {
    return (
      <li>
        <button type="button" className="tree-item" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span className="fold-mark" data-open={isOpen ? "" : undefined}>
            <Icon name="fold" size={12} />
          </span>
          <Icon name="folder" size={14} />
          <span className="cut">{entry.name}</span>
        </button>
        {isOpen ? <Folder path={path} open={open} onOpen={onOpen} version={version} /> : null}
      </li>
    );
  }
  return (
    <li>
      <button
        type="button"
        className="tree-item"
        aria-current={path === open ? "true" : undefined}
        disabled={entry.kind !== "file"}
        onClick={() => onOpen(path)}
      >
        <span className="fold-mark" />
        <Icon name="file" size={14} />
        <span className="cut grow">{entry.name}</span>
        <span className="muted small">{entry.kind === "file" ? bytes(entry.size) : entry.kind}</span>
      </button>
    </li>
  );
}

function byKind(one: v1.FileEntry, other: v1.FileEntry): number {
  const rank = (entry: v1.FileEntry) => (entry.kind === "directory" ? 0 : 1);
  return rank(one) - rank(other) || one.name.localeCompare(other.name);
}

function join(folder: string, name: string): string {
  return folder === "" ? name : `${folder}/${name}`;
}
