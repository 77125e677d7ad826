import { type ComponentType, useEffect } from "react";
import { Link } from "../router";
import { Models } from "./models";
import { Organisation } from "./organisation";
import { Providers } from "./providers";
import { useRoute } from "./routes";
import { Secrets } from "./secrets";
import { Storage } from "./storage";
import { Tokens } from "./tokens";

interface Section {
  name: string;
  label: string;
  View: ComponentType;
  /** Shown where the server has it. */
  route?: string;
}

/** What the server has a route for, and nothing else. */
const SECTIONS: readonly Section[] = [
  { name: "models", label: "Model keys", View: Models },
  { name: "secrets", label: "Secrets", View: Secrets },
  { name: "tokens", label: "Tokens", View: Tokens },
  { name: "machines", label: "Sandboxes", View: Providers },
  { name: "storage", label: "Storage", View: Storage, route: "/v1/snapshots" },
  { name: "organisation", label: "Organisation", View: Organisation },
];

export default function SettingsPage({ section }: { section: string }) {
  const hasStorage = useRoute("get", "/v1/snapshots");
  const shown = SECTIONS.filter((one) => one.route === undefined || hasStorage);
  const open = shown.find((one) => one.name === section) ?? shown[0];
  useEffect(() => {
    document.title = "Settings · Nacre";
  }, []);
  return (
    <main className="page settings">
      <nav aria-label="Settings" className="settings-nav">
        {shown.map((one) => (
          <Link key={one.name} to={`/settings/${one.name}`} aria-current={one === open ? "page" : undefined}>
            {one.label}
          </Link>
        ))}
      </nav>
      <div className="settings-body">{open ? <open.View /> : null}</div>
    </main>
  );
}
