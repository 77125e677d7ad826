import { client } from "../api";
import { plural } from "../format";
import { Failed } from "../panels/asleep";
import { Icon, type IconName } from "../ui/icon";
import { useLoaded } from "../ui/use";
import { type Finding, readFindings } from "./told";

const SHOWN: Record<Finding["status"], { word: string; tone: string; icon: IconName; rank: number }> = {
  missing: { word: "missing", tone: "bad", icon: "close", rank: 0 },
  warning: { word: "works with less", tone: "warn", icon: "warn", rank: 1 },
  info: { word: "to know", tone: "info", icon: "check", rank: 2 },
  ok: { word: "good", tone: "good", icon: "check", rank: 3 },
};

/** What the machine has and lacks, and what to do about it. */
export function Doctor() {
  const loaded = useLoaded(
    async () => readFindings(await client.http.answer<unknown>({ method: "GET", path: ["v1", "doctor"] })),
    "doctor",
  );
  const findings = [...(loaded.value ?? [])].sort((one, other) => SHOWN[one.status].rank - SHOWN[other.status].rank);
  const open = findings.filter((one) => one.status === "missing" || one.status === "warning").length;
  return (
    <>
      <div className="page-head">
        <h1 className="grow">Doctor</h1>
        <button type="button" className="button small" onClick={loaded.again} disabled={loaded.isLoading}>
          <Icon name="reload" size={14} />
          {loaded.isLoading ? "Looking…" : "Look again"}
        </button>
      </div>
      <p className="muted">
        {loaded.value === null
          ? "What the server's machine has and lacks."
          : open === 0
            ? "The server's machine has all that it needs."
            : `${plural(open, "thing")} could be better. On the machine, `}
        {open > 0 ? <code>nacre doctor --fix</code> : null}
        {open > 0 ? " mends what it can." : null}
      </p>
      {loaded.error ? <Failed error={loaded.error} onAgain={loaded.again} /> : null}
      <ul className="list card-list">
        {findings.map((one) => (
          <li key={one.name} className="list-item finding" data-tone={SHOWN[one.status].tone}>
            <Icon name={SHOWN[one.status].icon} />
            <span className="list-main">
              <strong>{one.name}</strong>
              <span className="muted small">{one.found}</span>
              {one.advice === "" ? null : <span className="small">{one.advice}</span>}
            </span>
            <span className="badge" data-tone={SHOWN[one.status].tone}>
              {SHOWN[one.status].word}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
