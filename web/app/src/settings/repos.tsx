import { type FormEvent, useState } from "react";
import { client } from "../api";
import { ago, repoName } from "../format";
import { Failed } from "../panels/asleep";
import { Link } from "../router";
import { complain, tell } from "../ui/toasts";
import { useLoaded, useNow } from "../ui/use";
import { type Repo, readRepos } from "./told";

const PATH = ["v1", "repos"];

/** Repositories that sessions are begun on. */
export function Repos() {
  const loaded = useLoaded(
    async () => readRepos(await client.http.answer<unknown>({ method: "GET", path: PATH, query: { limit: 200 } })),
    "repos",
  );
  const now = useNow(60_000);
  const [url, setUrl] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    client.http.done({ method: "POST", path: PATH, json: { url: url.trim() }, once: true }).then(() => {
      setUrl("");
      tell(`${repoName(url.trim())} is added`);
      loaded.again();
    }, complain);
  };
  const remove = (repo: Repo) =>
    client.http.done({ method: "DELETE", path: [...PATH, repo.id] }).then(() => {
      tell(`${repoName(repo.url)} is gone from the list; its sessions stay`);
      loaded.again();
    }, complain);
  return (
    <>
      <h1>Repositories</h1>
      <p className="muted">
        Offered when a session is made. One that is private wants a token: a secret for its git host, in{" "}
        <Link to="/settings/secrets">Secrets</Link>.
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <form className="row" onSubmit={add}>
        <input
          className="input"
          type="url"
          required
          aria-label="Address of a repository"
          placeholder="https://github.com/owner/name"
          value={url}
          onChange={(event) => setUrl(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={url.trim() === ""}>
          Add
        </button>
      </form>
      <ul className="list card-list">
        {(loaded.value ?? []).map((repo) => (
          <li key={repo.id || repo.url} className="list-item">
            <span className="list-main">
              <strong className="cut">{repoName(repo.url)}</strong>
              <span className="muted small cut">
                {repo.url}
                {repo.branch === "" ? "" : ` · ${repo.branch}`}
                {repo.createdAt === "" ? "" : ` · ${ago(repo.createdAt, now)}`}
              </span>
            </span>
            {repo.id === "" ? null : (
              <button type="button" className="button small danger" onClick={() => void remove(repo)}>
                Remove
              </button>
            )}
          </li>
        ))}
      </ul>
      {loaded.value?.length === 0 ? <p className="muted small">None yet.</p> : null}
    </>
  );
}
