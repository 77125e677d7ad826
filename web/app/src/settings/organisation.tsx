import { caller, client } from "../api";
import { Failed } from "../panels/asleep";
import { useStore } from "../store";
import { useLoaded } from "../ui/use";
import { Members } from "./members";
import { useRoute } from "./routes";

export function Organisation() {
  const who = useStore(caller);
  const loaded = useLoaded(() => client.organisations(), "organisations");
  const hasMembers = useRoute("get", "/v1/orgs/{id}/members");
  return (
    <>
      <h1>Organisation</h1>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      {(loaded.value?.items ?? []).map((one) => (
        <section key={one.id} className="card">
          <div className="row">
            <h2 className="grow">{one.name}</h2>
            <span className="badge plain">{one.role}</span>
          </div>
          <p className="muted small mono">{one.id}</p>
          {hasMembers && one.id === who?.org_id ? (
            <Members organisation={one.id} isOwner={one.role === "owner"} />
          ) : null}
        </section>
      ))}
      <p className="muted small">
        You are {who?.user?.name ?? "a service"} {who?.user ? `(${who.user.email})` : ""}.
      </p>
    </>
  );
}
