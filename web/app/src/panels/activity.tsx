import { useEffect, useMemo, useState } from "react";
import { clock, duration, plural } from "../format";
import { useLive } from "../session/live";
import { useNow } from "../ui/use";
import { type Happening, type Stretch, stretchesOf } from "./timeline";

const KINDS = [
  { name: "all", label: "All" },
  { name: "phase", label: "Phases" },
  { name: "tool", label: "Tools" },
  { name: "prompt", label: "Answers" },
  { name: "other", label: "Other" },
] as const;

/** So many of the newest are drawn. */
const MOST = 60;

/** Every start and turn on an axis of time, as the log tells it. */
export default function ActivityPanel() {
  const live = useLive();
  const [kind, setKind] = useState<string>("all");
  // Before the first frame nobody knows how long the log is.
  const hasBegun = live.transcript.seq > 0;
  useEffect(() => (hasBegun ? live.loadLog() : undefined), [live, hasBegun]);
  const heard = live.heard;
  const stretches = useMemo(() => stretchesOf(heard), [heard]);
  const shown = stretches
    .map((stretch) => ({
      ...stretch,
      happenings: stretch.happenings.filter((one) => kind === "all" || one.kind === kind),
    }))
    .filter((stretch) => stretch.happenings.length > 0);
  const count = shown.reduce((sum, stretch) => sum + stretch.happenings.length, 0);
  const newest = stretches.at(-1)?.key;
  return (
    <div className="activity">
      <div className="row panel-bar">
        <fieldset className="segments" aria-label="Which events">
          {KINDS.map((one) => (
            <button key={one.name} type="button" aria-pressed={kind === one.name} onClick={() => setKind(one.name)}>
              {one.label}
            </button>
          ))}
        </fieldset>
        <span className="grow" />
        <span className="muted small">{plural(count, "event")}</span>
      </div>
      {shown
        .slice(-MOST)
        .reverse()
        .map((stretch) => (
          <StretchView key={stretch.key} stretch={stretch} isNewest={stretch.key === newest} />
        ))}
      {heard.length > 0 && shown.length === 0 ? <p className="muted small tree-note">Nothing of that kind.</p> : null}
    </div>
  );
}

function StretchView({ stretch, isNewest }: { stretch: Stretch; isNewest: boolean }) {
  const now = useNow(1000);
  const from = stretch.from;
  // What goes on makes its stretch longer; what never ended in an old one was lost with its sandbox.
  const isGoingOn = isNewest && stretch.happenings.some((one) => one.to === null);
  const to = isGoingOn ? Math.max(now, stretch.to ?? now) : stretch.to;
  const span = from === null || to === null ? 0 : to - from;
  return (
    <section className="stretch" aria-label={stretch.title}>
      <header className="stretch-head">
        <h3 className="cut grow">{stretch.title}</h3>
        <span className="muted small">
          {from === null ? "" : clock(from)}
          {span > 0 ? ` · ${duration(span)}` : ""}
        </span>
      </header>
      {span > 0 ? <Axis span={span} /> : null}
      <ol className="timeline">
        {stretch.happenings.map((one) => (
          <Line key={one.key} happening={one} from={from} span={span} until={isGoingOn ? to : (stretch.to ?? null)} />
        ))}
      </ol>
    </section>
  );
}

/** The time from the beginning of a stretch, above the bars. */
function Axis({ span }: { span: number }) {
  return (
    <div className="axis" aria-hidden="true">
      {[0, 0.5, 1].map((share) => (
        <span key={share}>{share === 0 ? "0" : duration(span * share)}</span>
      ))}
    </div>
  );
}

interface LineProps {
  happening: Happening;
  from: number | null;
  span: number;
  until: number | null;
}

function Line({ happening, from, span, until }: LineProps) {
  const { from: began, to } = happening;
  const end = to ?? until;
  const took = began === null || end === null ? 0 : end - began;
  const left = from === null || began === null || span <= 0 ? 0 : (Math.max(0, began - from) / span) * 100;
  const width = span <= 0 ? 0 : Math.min(100 - left, (took / span) * 100);
  return (
    <li data-kind={happening.kind} data-tone={happening.tone}>
      <time className="muted mono">{began === null ? "" : clock(began)}</time>
      <span className="timeline-what cut">{happening.what}</span>
      <span className="cut muted" title={happening.detail}>
        {happening.detail}
      </span>
      <span className="phase-track">
        {span > 0 ? <i style={{ left: `${Math.min(left, 99.4)}%`, width: `${Math.max(0.6, width)}%` }} /> : null}
      </span>
      <span className="muted timeline-took">{to === null ? "…" : took > 0 ? duration(took) : ""}</span>
    </li>
  );
}
