import type { v1 } from "@nacre/client";
import { type FormEvent, useState } from "react";
import { client, words } from "../api";
import { navigate } from "../router";
import { useRoute } from "../settings/routes";
import { readRepos } from "../settings/told";
import { Store, useStore } from "../store";
import { Dialog } from "../ui/dialog";
import { useLoaded } from "../ui/use";

const isOpen = new Store(false);

export function openNew(): void {
  isOpen.set(true);
}

export function NewSession() {
  return useStore(isOpen) ? <Form onClose={() => isOpen.set(false)} /> : null;
}

function Form({ onClose }: { onClose: () => void }) {
  const models = useLoaded(() => client.models(), "models");
  const hasRepos = useRoute("get", "/v1/repos");
  const repos = useLoaded(
    async () =>
      hasRepos ? readRepos(await client.http.answer<unknown>({ method: "GET", path: ["v1", "repos"] })) : [],
    `repos-${hasRepos}`,
  );
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const all = models.value?.models ?? [];
  const standard = all.find((model) => model.is_default);
  const onlyDemo = all.length > 0 && all.every((model) => !model.available || model.id.startsWith("demo/"));

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setError(null);
    try {
      const made = await client.createSession(await asked(form));
      onClose();
      navigate(`/sessions/${made.id}`);
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
  };

  return (
    <Dialog label="New session" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2>New session</h2>
        <label className="field">
          <span>What shall be done?</span>
          <textarea
            className="input"
            name="prompt"
            rows={4}
            placeholder="Describe the task. It may also be left for later."
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) event.currentTarget.form?.requestSubmit();
            }}
          />
        </label>
        <div className="two">
          <label className="field">
            <span>Repository</span>
            <input
              className="input"
              name="url"
              type="url"
              list="known-repos"
              placeholder="https://github.com/owner/name"
            />
            <datalist id="known-repos">
              {(repos.value ?? []).map((repo) => (
                <option key={repo.url} value={repo.url} />
              ))}
            </datalist>
          </label>
          <label className="field">
            <span>Branch</span>
            <input className="input" name="branch" placeholder="the usual one" autoComplete="off" />
          </label>
        </div>
        <div className="two">
          <label className="field">
            <span>Model</span>
            <select className="input" name="model" key={standard?.id ?? ""} defaultValue={standard?.id ?? ""}>
              {all.map((model) => (
                <option key={model.id} value={model.id} disabled={!model.available}>
                  {model.name}
                  {model.available ? "" : " (no key)"}
                </option>
              ))}
            </select>
          </label>
          <label className="field">
            <span>Title</span>
            <input className="input" name="title" placeholder="found by itself" autoComplete="off" />
          </label>
        </div>
        <details className="small">
          <summary>From a git bundle of this machine</summary>
          <p className="muted">
            <code>git bundle create repo.bundle --all</code>, then choose the file.
          </p>
          <input type="file" name="bundle" aria-label="Git bundle" />
        </details>
        {onlyDemo ? (
          <p className="small muted">
            No model has a key yet, so the demo model answers: a script, not a language model. Keys are in{" "}
            <a href="/settings/models">Settings</a>.
          </p>
        ) : null}
        {error === null ? null : (
          <p className="turn-error" role="alert">
            {words(error)}
          </p>
        )}
        <div className="actions">
          <button type="button" className="button quiet" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="button primary" disabled={isBusy}>
            {isBusy ? "Starting…" : "Start"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

async function asked(form: FormData): Promise<v1.NewSession> {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const bundle = form.get("bundle");
  const repos: v1.NewRepo[] = [];
  if (text("url") !== "") repos.push({ url: text("url"), ...(text("branch") ? { branch: text("branch") } : {}) });
  if (bundle instanceof File && bundle.size > 0) {
    const upload = await client.upload(bundle, { name: bundle.name });
    repos.push({ bundle: upload.upload_id, path: bundle.name.replace(/\.bundle$/, "").replace(/[^\w.-]/g, "-") });
  }
  return {
    repos,
    channel: "web",
    start: true,
    ...(text("title") ? { title: text("title") } : {}),
    ...(text("model") ? { model: text("model") } : {}),
    ...(text("prompt") ? { initial_prompt: text("prompt") } : {}),
  };
}
