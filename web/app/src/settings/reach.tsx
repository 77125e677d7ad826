import { client } from "../api";
import { Failed } from "../panels/asleep";
import { POLICIES } from "../session/notes";
import { useLoaded } from "../ui/use";
import { readReach } from "./told";

const LISTS: Record<string, string> = {
  allow: "Every session may reach",
  egress_allow: "Every session may reach",
  everywhere: "Every sandbox with a list may reach",
  default: "On the list by itself",
  defaults: "On the list by itself",
  private: "Private addresses that are let through",
};

/** What sessions reach that do not say otherwise. It is the server's configuration, and read-only here. */
export function Reach() {
  const loaded = useLoaded(
    async () => readReach(await client.http.answer<unknown>({ method: "GET", path: ["v1", "egress"] })),
    "reach",
  );
  const told = loaded.value;
  return (
    <>
      <h1>Egress</h1>
      <p className="muted">
        What sandboxes reach. A session can be given more, or less, when it is made; what it was refused is in its own
        Egress panel.
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {told === null ? null : (
        <>
          <section className="card">
            <div className="row">
              <h2 className="grow">Policy</h2>
              <span className="badge plain">{told.policy || "unknown"}</span>
            </div>
            <p className="small">{POLICIES[told.policy] ?? ""}</p>
            <p className="muted small">
              Private, loopback and metadata addresses are refused under each policy. It is set where the server runs:{" "}
              <code>sessions.egress</code> and <code>sessions.egress_allow</code> in its settings.
            </p>
          </section>
          {told.lists.map((list) => (
            <section key={list.name} className="card">
              <div className="row">
                <h2 className="grow">{LISTS[list.name] ?? list.name.replaceAll("_", " ")}</h2>
                <span className="muted small">{list.rules.length}</span>
              </div>
              {list.rules.length === 0 ? <p className="muted small">nothing</p> : null}
              <ul className="chips">
                {list.rules.map((rule) => (
                  <li key={rule}>
                    <code>{rule}</code>
                  </li>
                ))}
              </ul>
            </section>
          ))}
        </>
      )}
    </>
  );
}
