import type { v1 } from "@nacre/client";
import { useEffect, useRef, useState } from "react";
import { client } from "../api";
import { IfMember } from "../rights";
import { useLive } from "../session/live";
import { complain } from "../ui/toasts";
import { useEvery, useLoaded } from "../ui/use";
import { Failed, WhenAwake } from "./asleep";

const TAIL = 128 * 1024;

export default function ServicesPanel() {
  return (
    <WhenAwake what="The list of services">
      <Services />
    </WhenAwake>
  );
}

function Services() {
  const live = useLive();
  const loaded = useLoaded(() => client.services(live.id), `services-${live.id}-${live.servicesVersion}`);
  const [open, setOpen] = useState<string | null>(null);
  useEvery(loaded.again, 5000);
  const services = loaded.value?.services ?? [];
  if (loaded.error) return <Failed error={loaded.error} onAgain={loaded.again} />;
  if (loaded.value !== null && services.length === 0) {
    return (
      <div className="empty">
        <p>
          Nothing is kept running. The agent starts services by itself; by hand:{" "}
          <code>nacre services start --name web --command "npm run dev"</code> in a terminal here.
        </p>
      </div>
    );
  }
  return (
    <div className="services">
      <ul className="list">
        {services.map((service) => (
          <Service
            key={service.name}
            service={service}
            isOpen={open === service.name}
            onOpen={() => setOpen(open === service.name ? null : service.name)}
            onChange={loaded.again}
          />
        ))}
      </ul>
      {open !== null && services.some((service) => service.name === open) ? <Log key={open} name={open} /> : null}
    </div>
  );
}

const TONES: Record<string, string> = { running: "good", failed: "bad", restarting: "warn" };

interface ServiceProps {
  service: v1.ServiceInfo;
  isOpen: boolean;
  onOpen: () => void;
  onChange: () => void;
}

function Service({ service, isOpen, onOpen, onChange }: ServiceProps) {
  const live = useLive();
  const [isBusy, setBusy] = useState(false);
  const act = (action: "start" | "stop" | "restart") => {
    setBusy(true);
    client
      .actOnService(live.id, service.name, action)
      .catch(complain)
      .finally(() => {
        setBusy(false);
        onChange();
      });
  };
  const isRunning = service.status === "running" || service.status === "restarting";
  return (
    <li className="list-item">
      <button type="button" className="list-main" aria-expanded={isOpen} onClick={onOpen}>
        <strong>{service.name}</strong>
        <code className="cut muted">{service.command}</code>
      </button>
      <span className="badge" data-tone={TONES[service.status]}>
        {service.status}
        {service.exit_code != null && !isRunning ? ` (${service.exit_code})` : ""}
      </span>
      <IfMember>
        <button
          type="button"
          className="button small"
          disabled={isBusy}
          onClick={() => act(isRunning ? "restart" : "start")}
        >
          {isRunning ? "Restart" : "Start"}
        </button>
        <button type="button" className="button small" disabled={isBusy || !isRunning} onClick={() => act("stop")}>
          Stop
        </button>
      </IfMember>
    </li>
  );
}

/** What it printed, and prints. */
function Log({ name }: { name: string }) {
  const live = useLive();
  const loaded = useLoaded(() => client.serviceLogs(live.id, name, TAIL), `log-${live.id}-${name}`);
  useEvery(loaded.again, 1500);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it follows what is printed.
  useEffect(() => {
    if (isAtEnd.current) box.current?.scrollTo(0, box.current.scrollHeight);
  }, [loaded.value]);
  return (
    <pre
      className="log"
      ref={box}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard.
      tabIndex={0}
      role="log"
      aria-label={`Log of ${name}`}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < 30;
      }}
    >
      {loaded.value === "" ? "It printed nothing yet." : plain(loaded.value ?? "")}
    </pre>
  );
}

/** Without the codes that colour a terminal. */
export function plain(log: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out.
  return log.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007|\r(?!\n)/g, "");
}
