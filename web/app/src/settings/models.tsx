import { type FormEvent, useState } from "react";
import { client } from "../api";
import { Failed } from "../panels/asleep";
import { complain, tell } from "../ui/toasts";
import { useLoaded } from "../ui/use";

const NAMES: Record<string, string> = { anthropic: "Anthropic", openai: "OpenAI" };

/** Keys of model providers. They never enter a sandbox, and are never shown again. */
export function Models() {
  const models = useLoaded(() => client.models(), "models");
  const secrets = useLoaded(() => client.secrets({ limit: 200 }), "model-keys");
  const all = models.value?.models ?? [];
  const providers = [...new Set(all.map((model) => model.id.split("/")[0] ?? ""))].filter((one) => one !== "demo");
  const keyOf = (provider: string) =>
    secrets.value?.items.find(
      (secret) => typeof secret.scope === "object" && "model" in secret.scope && secret.scope.model === provider,
    );
  const again = () => {
    models.again();
    secrets.again();
  };
  return (
    <>
      <h1>Model keys</h1>
      <p className="muted">
        A key stays outside of every sandbox: the agent asks the server, and the server puts the key on.
      </p>
      {models.error ? <Failed error={models.error} onAgain={again} /> : null}
      {providers.map((provider) => {
        const key = keyOf(provider);
        const own = all.filter((model) => model.id.startsWith(`${provider}/`));
        return (
          <section key={provider} className="card">
            <div className="row">
              <h2 className="grow">{NAMES[provider] ?? provider}</h2>
              <span className="badge" data-tone={own.some((model) => model.available) ? "good" : undefined}>
                {own.some((model) => model.available) ? (key ? "key is set" : "available") : "no key"}
              </span>
            </div>
            <p className="muted small">{own.map((model) => model.name).join(", ")}</p>
            <KeyForm provider={provider} secret={key?.id ?? null} onDone={again} />
          </section>
        );
      })}
      {all.some((model) => model.id.startsWith("demo/")) ? (
        <section className="card">
          <div className="row">
            <h2 className="grow">Demo</h2>
            <span className="badge" data-tone="good">
              needs no key
            </span>
          </div>
          <p className="muted small">
            A script, not a language model: it makes the real agent look around, write a file and run it.
          </p>
        </section>
      ) : null}
    </>
  );
}

function KeyForm({ provider, secret, onDone }: { provider: string; secret: string | null; onDone: () => void }) {
  const [value, setValue] = useState("");
  const save = (event: FormEvent) => {
    event.preventDefault();
    client
      .putSecret({ name: "key", scope: { model: provider }, value })
      .then(() => {
        setValue("");
        tell(`The key of ${provider} is set`);
        onDone();
      })
      .catch(complain);
  };
  const remove = () => {
    if (secret !== null) client.deleteSecret(secret).then(onDone, complain);
  };
  return (
    <form className="row" onSubmit={save}>
      <input
        className="input mono"
        type="password"
        autoComplete="off"
        aria-label={`Key of ${provider}`}
        placeholder={secret === null ? "Paste a key" : "Paste another key"}
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
      <button type="submit" className="button" disabled={value === ""}>
        Save
      </button>
      {secret === null ? null : (
        <button type="button" className="button danger" onClick={remove}>
          Remove
        </button>
      )}
    </form>
  );
}
