import { newPromptId, type v1 } from "@nacre/client";
import { type ClipboardEvent, type DragEvent, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { client } from "../api";
import { bytes } from "../format";
import { useMayChange } from "../rights";
import { Icon } from "../ui/icon";
import { complain } from "../ui/toasts";
import { useLoaded } from "../ui/use";
import { useLive } from "./live";
import { isWorking } from "./working";

interface Attached {
  name: string;
  media_type: string;
  size: number;
  upload: string | null;
  key: number;
}

const MOST = 16;
let attachedCount = 0;

export function Composer() {
  const isMember = useMayChange();
  const live = useLive();
  if (!isMember) {
    return <p className="composer only-look">You may look here. Owners and members of the organisation write.</p>;
  }
  if (live.status === "stopped") {
    return <p className="composer only-look">It has ended for good, and hears nobody. A fork goes on from here.</p>;
  }
  if (live.status === "degraded") {
    return <p className="composer only-look">Go on with what was kept first; then it hears you again.</p>;
  }
  return <Writing />;
}

function Writing() {
  const live = useLive();
  const [text, setText] = useDraft(live.id);
  const [files, setFiles] = useState<Attached[]>([]);
  const [model, setModel] = useState("");
  const [isOver, setOver] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const isBusy = isWorking(live.transcript);
  const isSending = files.some((file) => file.upload === null);

  const attach = (list: FileList | File[]) => {
    for (const file of [...list].slice(0, MOST - files.length)) {
      attachedCount += 1;
      const key = attachedCount;
      const media_type = file.type || "application/octet-stream";
      setFiles((all) => [...all, { key, name: file.name || "pasted.png", media_type, size: file.size, upload: null }]);
      client
        .upload(file, { name: file.name || "pasted.png", media_type })
        .then(({ upload_id }) =>
          setFiles((all) => all.map((one) => (one.key === key ? { ...one, upload: upload_id } : one))),
        )
        .catch((error: unknown) => {
          setFiles((all) => all.filter((one) => one.key !== key));
          complain(error);
        });
    }
  };

  const send = (mode: v1.PromptMode) => {
    const content = text.trim();
    if ((content === "" && files.length === 0) || isSending) return;
    const attachments = files.map(({ name, media_type, upload }) => ({ name, media_type, source: { upload } }));
    try {
      const id = newPromptId();
      if (files.length > 0) {
        live.attached.set(
          id,
          files.map((file) => file.name),
        );
      }
      live.prompt({
        id,
        content,
        mode,
        ...(attachments.length > 0 ? { attachments } : {}),
        ...(model === "" ? {} : { model }),
      });
      setText("");
      setFiles([]);
    } catch (error) {
      complain(error);
    }
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send(event.altKey ? "steer" : "followup");
    } else if (event.key === "Escape" && isBusy) {
      event.preventDefault();
      live.session.cancel();
    }
  };

  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    attach(event.clipboardData.files);
  };

  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    attach(event.dataTransfer.files);
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: its height follows the text.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 260)}px`;
  }, [text]);

  return (
    <form
      className="composer"
      data-over={isOver ? "" : undefined}
      onSubmit={(event) => {
        event.preventDefault();
        send("followup");
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <Files files={files} onRemove={(key) => setFiles((all) => all.filter((one) => one.key !== key))} />
      <textarea
        ref={box}
        id="composer"
        className="composer-text"
        rows={1}
        aria-label="Message to the agent"
        placeholder={placeholderFor(live.status, isBusy)}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKey}
        onPaste={onPaste}
      />
      <div className="composer-foot">
        <label className="button quiet small" title="Attach files; paste and drop work, too">
          Attach
          <input
            type="file"
            multiple
            className="visually-hidden"
            onChange={(event) => {
              if (event.target.files) attach(event.target.files);
              event.target.value = "";
            }}
          />
        </label>
        <ModelChoice chosen={model} onChoose={setModel} />
        <span className="grow" />
        {isBusy ? (
          <>
            <button type="button" className="button small" onClick={() => live.session.cancel()} title="Escape">
              Cancel turn
            </button>
            {text.trim() === "" ? null : (
              <button
                type="button"
                className="button small"
                onClick={() => send("steer")}
                title="Into the turn that is under way (Alt+Enter)"
              >
                Steer
              </button>
            )}
          </>
        ) : null}
        <button type="submit" className="button primary small" disabled={isSending || (!text.trim() && !files.length)}>
          {isBusy ? "Queue" : "Send"}
        </button>
      </div>
    </form>
  );
}

function placeholderFor(status: string, isBusy: boolean): string {
  if (status === "suspended") return "What you send waits until it may go on…";
  if (status === "paused") return "Ask for something: it wakes for that…";
  return isBusy ? "Queue what comes next…" : "Ask for something…";
}

function Files({ files, onRemove }: { files: Attached[]; onRemove: (key: number) => void }) {
  if (files.length === 0) return null;
  return (
    <ul className="attached" aria-label="Attachments">
      {files.map((file) => (
        <li key={file.key} className="row">
          <span className="cut">{file.name}</span>
          <span className="muted">{file.upload === null ? "sending…" : bytes(file.size)}</span>
          <button
            type="button"
            className="button quiet small icon"
            aria-label={`Remove ${file.name}`}
            onClick={() => onRemove(file.key)}
          >
            <Icon name="close" size={12} />
          </button>
        </li>
      ))}
    </ul>
  );
}

function ModelChoice({ chosen, onChoose }: { chosen: string; onChoose: (model: string) => void }) {
  const live = useLive();
  const models = useLoaded(() => client.models(), "models");
  const own = live.record?.model ?? "";
  const all = models.value?.models ?? [];
  return (
    <select
      className="model-choice"
      aria-label="Model"
      value={chosen || own}
      onChange={(event) => onChoose(event.target.value)}
    >
      {own !== "" && !all.some((model) => model.id === own) ? <option value={own}>{own}</option> : null}
      {all.map((model) => (
        <option key={model.id} value={model.id} disabled={!model.available}>
          {model.name}
          {model.available ? "" : " (no key)"}
        </option>
      ))}
    </select>
  );
}

/** What is half written survives a reload. */
function useDraft(id: string): [string, (text: string) => void] {
  const key = `nacre-draft-${id}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? "");
  const set = (next: string) => {
    setText(next);
    if (next === "") sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, next);
  };
  return [text, set];
}
