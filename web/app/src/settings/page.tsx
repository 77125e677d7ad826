import { type ComponentType, useEffect } from "react";
import { Link } from "../router";
import { Models } from "./models";
import { Organisation } from "./organisation";
import { Providers } from "./providers";
import { Secrets } from "./secrets";
import { Tokens } from "./tokens";

interface Section {
  name: string;
  label: string;
  View: ComponentType;
}

/** What the server has a route for, and nothing else. */
const SECTIONS: readonly Section[] = [
  { name: "models", label: "Model keys", View: Models },
  { name: "secrets", label: "Secrets", View: Secrets },
  { name: "tokens", label: "Tokens", View: Tokens },
  { name: "machines", label: "Sandboxes", View: Providers },
  { name: "organisation", label: "Organisation", View: Organisation },
];

export default function SettingsPage({ section }: { section: string }) {
  const open = SECTIONS.find((one) => one.name === section) ?? SECTIONS[0];
  useEffect(() => {
    document.title = "Settings · Nacre";
  }, []);
  return (
    <main className="page settings">
      <nav aria-label="Settings" className="settings-nav">
        {SECTIONS.map((one) => (
          <Link key={one.name} to={`/settings/${one.name}`} aria-current={one === open ? "page" : undefined}>
            {one.label}
          </Link>
        ))}
      </nav>
      <div className="settings-body">{open ? <open.View /> : null}</div>
    </main>
  );
}
