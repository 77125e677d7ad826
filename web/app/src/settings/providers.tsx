import { client } from "../api";
import { duration } from "../format";
import { Failed } from "../panels/asleep";
import { useLoaded } from "../ui/use";

/** What runs sandboxes, and how well. */
export function Providers() {
  const loaded = useLoaded(() => client.providers(), "providers");
  return (
    <>
      <h1>Sandboxes</h1>
      <p className="muted">
        What runs them. <code>nacre doctor</code> on the server says what is missing there.
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {(loaded.value?.providers ?? []).map((provider) => (
        <section key={provider.name} className="card">
          <div className="row">
            <h2 className="grow">{provider.name}</h2>
            {provider.is_default ? <span className="badge plain">default</span> : null}
            <span className="badge" data-tone={provider.healthy ? "good" : "bad"}>
              {provider.healthy ? "healthy" : "unwell"}
            </span>
          </div>
          <p className="muted small">{provider.detail}</p>
          <dl className="facts-list">
            <div>
              <dt>Isolation</dt>
              <dd>{provider.isolation}</dd>
            </div>
            <div>
              <dt>Can</dt>
              <dd>{provider.capabilities.map((one) => one.replaceAll("_", " ")).join(", ")}</dd>
            </div>
            {provider.max_lifetime_ms ? (
              <div>
                <dt>Lives at most</dt>
                <dd>{duration(provider.max_lifetime_ms)}</dd>
              </div>
            ) : null}
          </dl>
        </section>
      ))}
    </>
  );
}
