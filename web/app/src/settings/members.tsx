import type { v1 } from "@nacre/client";
import { type FormEvent, useState } from "react";
import { client } from "../api";
import { Failed } from "../panels/asleep";
import { complain, tell } from "../ui/toasts";
import { useLoaded } from "../ui/use";

interface Member {
  user: v1.User;
  role: v1.Role;
}

/** Who belongs to an organisation. Somebody new gets a link that is good once. */
export function Members({ organisation, isOwner }: { organisation: string; isOwner: boolean }) {
  const path = ["v1", "orgs", organisation, "members"];
  const loaded = useLoaded(
    () => client.http.answer<{ items: Member[] }>({ method: "GET", path, query: { limit: 200 } }),
    `members-${organisation}`,
  );
  const [link, setLink] = useState<string | null>(null);
  const put = (email: string, role: string) =>
    client.http
      .answer<Member & { login?: v1.Endpoint | null }>({ method: "PUT", path, json: { email, role } })
      .then((member) => {
        setLink(member.login?.url ?? null);
        loaded.again();
      }, complain);
  const add = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    void put(String(form.get("email") ?? ""), String(form.get("role") ?? "member"));
    event.currentTarget.reset();
  };
  const remove = (member: Member) =>
    client.http.done({ method: "DELETE", path: [...path, member.user.id] }).then(() => {
      tell(`${member.user.name} is no member any more`);
      loaded.again();
    }, complain);
  return (
    <>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {(loaded.value?.items ?? []).map((member) => (
          <li key={member.user.id} className="list-item">
            <span className="list-main">
              <strong>{member.user.name}</strong>
              <span className="muted small">{member.user.email}</span>
            </span>
            <select
              aria-label={`Role of ${member.user.name}`}
              disabled={!isOwner}
              value={member.role}
              onChange={(event) => void put(member.user.email, event.target.value)}
            >
              <option value="owner">owner</option>
              <option value="member">member</option>
              <option value="viewer">viewer</option>
            </select>
            {isOwner ? (
              <button type="button" className="button small danger" onClick={() => void remove(member)}>
                Remove
              </button>
            ) : null}
          </li>
        ))}
      </ul>
      {isOwner ? (
        <form className="card secret-form" onSubmit={add}>
          <label className="field">
            <span>Somebody new</span>
            <input className="input" type="email" name="email" required placeholder="ada@example.org" />
          </label>
          <label className="field">
            <span>Role</span>
            <select className="input" name="role" defaultValue="member">
              <option>owner</option>
              <option>member</option>
              <option>viewer</option>
            </select>
          </label>
          <button type="submit" className="button primary">
            Invite
          </button>
        </form>
      ) : null}
      {link === null ? null : (
        <div className="card" role="status">
          <p>Give them this link. It signs them in, once.</p>
          <code className="cut">{link}</code>
        </div>
      )}
    </>
  );
}
