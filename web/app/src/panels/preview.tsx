import type { v1 } from "@nacre/client";
import { useState } from "react";
import { client } from "../api";
import { IfMember } from "../rights";
import { useLive } from "../session/live";
import { complain, tell } from "../ui/toasts";
import { useEvery, useLoaded } from "../ui/use";
import { Failed, WhenAwake } from "./asleep";
import { Framed } from "./framed";

const DAY = 24 * 60 * 60 * 1000;
/** The sandbox's own way out; nobody looks at that. */
const OURS = [3128];

export default function PreviewPanel() {
  return (
    <WhenAwake what="The preview">
      <Preview />
    </WhenAwake>
  );
}

function Preview() {
  const live = useLive();
  const loaded = useLoaded(() => client.ports(live.id), `ports-${live.id}-${live.servicesVersion}`);
  useEvery(loaded.again, 4000);
  const [chosen, setChosen] = useState<string | null>(null);
  const ports = (loaded.value?.ports ?? []).filter((one) => !OURS.includes(one.port));
  const exposed = loaded.value?.exposed_port ?? null;
  const first = exposed ?? ports[0]?.port ?? null;
  const target = chosen ?? (first === null ? null : String(first));
  if (loaded.error && loaded.value === null) return <Failed error={loaded.error} onAgain={loaded.again} />;
  if (target === null) {
    return (
      <div className="empty">
        <p>Nothing listens yet. As soon as a server starts in the sandbox, it is shown here.</p>
      </div>
    );
  }
  return (
    <div className="preview">
      <div className="row sub-tabs">
        {ports.map((port) => (
          <Port
            key={port.port}
            port={port}
            isExposed={port.port === exposed}
            isOpen={target === String(port.port)}
            onOpen={() => setChosen(String(port.port))}
          />
        ))}
        <span className="grow" />
        <IfMember>
          <Share port={Number(target)} />
        </IfMember>
      </div>
      <Framed key={target} target={target} title={`localhost:${target}`} hasPath />
    </div>
  );
}

interface PortProps {
  port: v1.PortInfo;
  isExposed: boolean;
  isOpen: boolean;
  onOpen: () => void;
}

function Port({ port, isExposed, isOpen, onOpen }: PortProps) {
  return (
    <span className="sub-tab" data-open={isOpen ? "" : undefined}>
      <button type="button" aria-pressed={isOpen} onClick={onOpen}>
        {port.port}
        {isExposed ? " · app" : ""}
      </button>
    </span>
  );
}

function Share({ port }: { port: number }) {
  const live = useLive();
  const share = async () => {
    const made = await client.share(live.id, { port, expires_in_ms: DAY });
    await navigator.clipboard?.writeText(made.url);
    tell("A link for one day is in the clipboard: whoever has it sees this port.", {
      label: "Take back",
      act: () => void client.unshare(live.id, made.id).catch(complain),
    });
  };
  return (
    <button type="button" className="button quiet small" onClick={() => void share().catch(complain)}>
      Share
    </button>
  );
}
