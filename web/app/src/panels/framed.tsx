import { useCallback, useEffect, useState } from "react";
import { client } from "../api";
import { useLive } from "../session/live";
import { complain } from "../ui/toasts";
import { Failed } from "./asleep";

/** What the sandbox shows, on an origin of its own. The link that opens it is good once. */
export function Framed({ target, title }: { target: string; title: string }) {
  const live = useLive();
  const [url, setUrl] = useState<string | null>(null);
  const [error, setError] = useState<unknown>(null);
  const id = live.id;
  const load = useCallback(() => {
    setError(null);
    setUrl(null);
    client.open(id, target).then((endpoint) => setUrl(endpoint.url), setError);
  }, [id, target]);
  useEffect(load, [load]);
  const away = () => {
    // Opened at once, so that the browser knows that somebody wanted it.
    const tab = window.open("about:blank", "_blank");
    client.open(id, target).then(
      (endpoint) => {
        if (tab === null) return;
        tab.opener = null;
        tab.location.href = endpoint.url;
      },
      (error: unknown) => {
        tab?.close();
        complain(error);
      },
    );
  };
  return (
    <div className="framed">
      <div className="row panel-bar">
        <span className="muted cut mono grow">{url === null ? title : new URL(url).host}</span>
        <button type="button" className="button small" onClick={load}>
          Reload
        </button>
        <button type="button" className="button small" onClick={away}>
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
