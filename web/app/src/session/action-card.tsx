import type { v1 } from "@nacre/client";
import { useState } from "react";
import { client } from "../api";
import { duration } from "../format";
import { useMayChange } from "../rights";
import { complain } from "../ui/toasts";
import { useNow } from "../ui/use";
import { useLive } from "./live";

const RISKS: Record<v1.ActionRisk, { word: string; tone: string }> = {
  read: { word: "only reads", tone: "info" },
  write: { word: "changes something", tone: "warn" },
  danger: { word: "cannot be undone", tone: "bad" },
};

/** Something that the agent wants done outside, decided where it is asked. */
export function ActionCard({ action }: { action: v1.Action }) {
  const live = useLive();
  const isMember = useMayChange();
  const now = useNow(1000);
  const [why, setWhy] = useState("");
  const [isBusy, setBusy] = useState(false);
  const left = Date.parse(action.expires_at) - now;
  const risk = RISKS[action.risk] ?? RISKS.danger;
  const decide = (work: Promise<v1.Action>) => {
    setBusy(true);
    work
      .then(({ status, message }) => live.actionDecided(action.id, status, message ?? null, null, Date.now()))
      .catch(complain)
      .finally(() => setBusy(false));
  };
  // A server that tells nobody when time runs out leaves it standing; it cannot be answered any more.
  if (left <= 0) return null;
  return (
    <form
      className="asked"
      aria-label="The agent asks to have something done"
      onSubmit={(event) => {
        event.preventDefault();
        decide(client.approveAction(live.id, action.id));
      }}
    >
      <div className="row">
        <p className="grow">
          The agent asks for <strong>{wordsOf(action)}</strong>
        </p>
        <span className="badge" data-tone={risk.tone}>
          {risk.word}
        </span>
      </div>
      <Params params={action.params} />
      {!isMember ? null : (
        <div className="row wrap">
          <button type="submit" className="button primary" disabled={isBusy}>
            Approve
          </button>
          <button
            type="button"
            className="button"
            disabled={isBusy}
            onClick={() =>
              decide(client.denyAction(live.id, action.id, why.trim() === "" ? {} : { message: why.trim() }))
            }
          >
            Deny
          </button>
          <input
            className="input grow"
            aria-label="Why not, for the agent"
            placeholder="Why not? (for the agent)"
            value={why}
            onChange={(event) => setWhy(event.target.value)}
          />
          <span className="muted small">{duration(left)} left</span>
        </div>
      )}
    </form>
  );
}

function wordsOf({ integration, action }: v1.Action): string {
  return `${integration}: ${action.replaceAll("_", " ")}`;
}

function Params({ params }: { params: unknown }) {
  if (typeof params !== "object" || params === null) return null;
  const all = Object.entries(params);
  if (all.length === 0) return null;
  return (
    <dl className="params">
      {all.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
