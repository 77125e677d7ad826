import type { v1 } from "@nacre/client";
import { type FormEvent, useState } from "react";
import { client } from "../api";
import { ago } from "../format";
import { Failed } from "../panels/asleep";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";

const KINDS = [
  { name: "organisation", label: "Every session", of: "" },
  { name: "repository", label: "Sessions on a repository", of: "https://github.com/owner/name" },
  { name: "session", label: "One session", of: "ses_…" },
  { name: "git", label: "A git host (a token)", of: "github.com" },
] as const;
type Kind = (typeof KINDS)[number]["name"];

export function Secrets() {
  const loaded = useLoaded(() => client.secrets({ limit: 200 }), "secrets");
  const now = useNow(60_000);
  const shown = (loaded.value?.items ?? []).filter(
    (secret) => !(typeof secret.scope === "object" && "model" in secret.scope),
  );
  const remove = (secret: v1.SecretInfo) =>
    client.deleteSecret(secret.id).then(() => {
      tell(`${secret.name} is gone`);
      loaded.again();
    }, complain);
  return (
    <>
      <h1>Secrets</h1>
      <p className="muted">
        Sealed at rest, never shown again. Those of sessions become environment values in their sandboxes; those of git
        hosts stay outside.
      </p>
      <SecretForm onDone={loaded.again} />
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {shown.map((secret) => (
          <li key={secret.id} className="list-item">
            <span className="list-main">
              <code>{secret.name}</code>
              <span className="muted small cut">{scopeWords(secret.scope)}</span>
            </span>
            <span className="muted small">{ago(secret.updated_at, now)}</span>
            <button type="button" className="button small danger" onClick={() => void remove(secret)}>
              Delete
            </button>
          </li>
        ))}
      </ul>
      {loaded.value !== null && shown.length === 0 ? <p className="muted small">There are none.</p> : null}
    </>
  );
}

export function scopeWords(scope: v1.SecretScope): string {
  if (scope === "organisation") return "every session";
  const [kind, of] = Object.entries(scope)[0] ?? ["", ""];
  if (kind === "user_git") return `git host ${of}, for your sessions`;
  return kind === "git" ? `git host ${of}` : `${kind} ${of}`;
}

function SecretForm({ onDone }: { onDone: () => void }) {
  const [kind, setKind] = useState<Kind>("organisation");
  const [of, setOf] = useState("");
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const hint = KINDS.find((one) => one.name === kind)?.of ?? "";
  const save = (event: FormEvent) => {
    event.preventDefault();
    const scope = (kind === "organisation" ? "organisation" : { [kind]: of.trim() }) as v1.SecretScope;
    client
      .putSecret({ name: name.trim(), scope, value })
      .then(() => {
        setName("");
        setValue("");
        tell("It is kept");
        onDone();
      })
      .catch(complain);
  };
  return (
    <form className="card secret-form" onSubmit={save}>
      <label className="field">
        <span>For</span>
        <select className="input" value={kind} onChange={(event) => setKind(event.target.value as Kind)}>
          {KINDS.map((one) => (
            <option key={one.name} value={one.name}>
              {one.label}
            </option>
          ))}
        </select>
      </label>
      {hint === "" ? null : (
        <label className="field">
          <span>Which</span>
          <input
            className="input"
            required
            placeholder={hint}
            value={of}
            onChange={(event) => setOf(event.target.value)}
          />
        </label>
      )}
      <label className="field">
        <span>Name</span>
        <input
          className="input mono"
          required
          placeholder={kind === "git" ? "token" : "API_TOKEN"}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      </label>
      <label className="field">
        <span>Value</span>
        <input
          className="input mono"
          type="password"
          autoComplete="off"
          required
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </label>
      <button type="submit" className="button primary">
        Keep
      </button>
    </form>
  );
}
