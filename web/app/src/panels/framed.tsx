import { type FormEvent, useCallback, useEffect, useState } from "react";
import { client } from "../api";
import { useLive } from "../session/live";
import { Icon } from "../ui/icon";
import { complain } from "../ui/toasts";
import { Failed } from "./asleep";

interface Props {
  target: string;
  title: string;
  /** With an address that can be written in, for pages that have more than one. */
  hasPath?: boolean;
}

/** What the sandbox shows, on an origin of its own. The link that opens it is good once. */
export function Framed({ target, title, hasPath = false }: Props) {
  const live = useLive();
  const [url, setUrl] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [path, setPath] = useState("/");
  const [draft, setDraft] = useState("/");
  const id = live.id;
  const open = useCallback(
    async () => at((await client.open(id, target)).url, hasPath ? path : null),
    [id, target, hasPath, path],
  );
  const load = useCallback(() => {
    setError(null);
    setUrl(null);
    open().then(setUrl, setError);
  }, [open]);
  useEffect(load, [load]);
  const away = () => {
    // Opened at once, so that the browser knows that somebody wanted it.
    const tab = window.open("about:blank", "_blank");
    open().then(
      (address) => {
        if (tab === null) return;
        tab.opener = null;
        tab.location.href = address;
      },
      (error: unknown) => {
        tab?.close();
        complain(error);
      },
    );
  };
  const go = (event: FormEvent) => {
    event.preventDefault();
    const next = draft.startsWith("/") ? draft : `/${draft}`;
    setDraft(next);
    if (next === path) load();
    else setPath(next);
  };
  const host = url === null ? title : new URL(url).host;
  return (
    <div className="framed">
      <div className="row panel-bar">
        <button type="button" className="button quiet small icon" aria-label="Reload" onClick={load}>
          <Icon name="reload" size={14} />
        </button>
        {hasPath ? (
          <form className="address" onSubmit={go}>
            <span className="muted cut" title={host}>
              {title}
            </span>
            <input
              aria-label="Path of the preview"
              spellCheck={false}
              autoComplete="off"
              value={draft}
              onChange={(event) => setDraft(event.target.value)}
            />
          </form>
        ) : (
          <span className="muted cut mono grow">{host}</span>
        )}
        <button type="button" className="button small" onClick={away}>
          <Icon name="external" size={13} />
          New tab
        </button>
      </div>
      {error === null ? null : <Failed error={error} onAgain={load} />}
      {url === null ? (
        <div className="empty">{error === null ? "Opening…" : null}</div>
      ) : (
        <iframe
          src={url}
          title={title}
          allow="clipboard-read; clipboard-write; fullscreen"
          referrerPolicy="no-referrer"
        />
      )}
    </div>
  );
}

/** The code that lets in goes along to another path of the same origin. */
export function at(url: string, path: string | null): string {
  if (path === null) return url;
  const given = new URL(url);
  const wanted = new URL(path, given.origin);
  // `//elsewhere` is no path.
  if (wanted.origin !== given.origin) return url;
  for (const [name, value] of given.searchParams) wanted.searchParams.append(name, value);
  return wanted.href;
}
