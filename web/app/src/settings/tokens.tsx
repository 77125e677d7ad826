import type { v1 } from "@nacre/client";
import { type FormEvent, useState } from "react";
import { client } from "../api";
import { ago } from "../format";
import { Failed } from "../panels/asleep";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";

const DAY = 24 * 60 * 60 * 1000;

export function Tokens() {
  const loaded = useLoaded(() => client.tokens({ limit: 200 }), "tokens");
  const [made, setMade] = useState<v1.TokenMade | null>(null);
  const now = useNow(60_000);
  const create = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const data = new FormData(form);
    const days = Number(data.get("days"));
    client
      .createToken({
        name: String(data.get("name") ?? "").trim(),
        service: data.get("service") === "on",
        ...(days > 0 ? { expires_in_ms: days * DAY } : {}),
      })
      .then((token) => {
        form.reset();
        setMade(token);
        loaded.again();
      })
      .catch(complain);
  };
  const revoke = (token: v1.Token) =>
    client.revokeToken(token.id).then(() => {
      tell(`“${token.name}” lets nobody in any more`);
      loaded.again();
    }, complain);
  return (
    <>
      <h1>Tokens</h1>
      <p className="muted">
        For programs: <code>Authorization: Bearer nac_…</code>. A token is shown once.
      </p>
      <form className="card secret-form" onSubmit={create}>
        <label className="field">
          <span>Name</span>
          <input className="input" name="name" required placeholder="laptop, CI, …" />
        </label>
        <label className="field">
          <span>Good for</span>
          <select className="input" name="days" defaultValue="90">
            <option value="7">a week</option>
            <option value="90">90 days</option>
            <option value="365">a year</option>
            <option value="0">ever</option>
          </select>
        </label>
        <label className="choice">
          <input type="checkbox" name="service" />
          <span>A service's, and nobody's</span>
        </label>
        <button type="submit" className="button primary">
          Make a token
        </button>
      </form>
      {made === null ? null : (
        <div className="card" role="status">
          <p>Copy it now; it is not shown again.</p>
          <div className="row">
            <code className="cut grow">{made.token}</code>
            <button
              type="button"
              className="button small"
              onClick={() => void navigator.clipboard?.writeText(made.token).then(() => tell("Copied"))}
            >
              Copy
            </button>
            <button type="button" className="button quiet small" onClick={() => setMade(null)}>
              Done
            </button>
          </div>
        </div>
      )}
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {(loaded.value?.items ?? []).map((token) => (
          <li key={token.id} className="list-item">
            <span className="list-main">
              <strong>{token.name}</strong>
              <span className="muted small">
                {token.service ? "service · " : ""}
                {token.last_used_at ? `used ${ago(token.last_used_at, now)}` : "never used"}
                {token.expires_at ? ` · until ${new Date(token.expires_at).toLocaleDateString()}` : ""}
              </span>
            </span>
            <button type="button" className="button small danger" onClick={() => void revoke(token)}>
              Revoke
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
