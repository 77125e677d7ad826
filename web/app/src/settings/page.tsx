import { type ComponentType, useEffect } from "react";
import { Link } from "../router";
import { Doctor } from "./doctor";
import { Models } from "./models";
import { Organisation } from "./organisation";
import { Providers } from "./providers";
import { Reach } from "./reach";
import { Repos } from "./repos";
import { useRoutes } from "./routes";
import { Secrets } from "./secrets";
import { Storage } from "./storage";
import { Tokens } from "./tokens";

interface Section {
  name: string;
  label: string;
  View: ComponentType;
  /** Shown where the server has one of these. */
  routes?: readonly string[];
}

const SECTIONS: readonly Section[] = [
  { name: "models", label: "Model keys", View: Models },
  { name: "repositories", label: "Repositories", View: Repos, routes: ["/v1/repos"] },
  { name: "secrets", label: "Secrets", View: Secrets },
  { name: "tokens", label: "Tokens", View: Tokens },
  { name: "egress", label: "Egress", View: Reach, routes: ["/v1/egress"] },
  { name: "machines", label: "Sandboxes", View: Providers },
  { name: "storage", label: "Storage", View: Storage, routes: ["/v1/storage", "/v1/snapshots"] },
  { name: "doctor", label: "Doctor", View: Doctor, routes: ["/v1/doctor"] },
  { name: "organisation", label: "Organisation", View: Organisation },
];

export default function SettingsPage({ section }: { section: string }) {
  const has = useRoutes();
  const shown = SECTIONS.filter((one) => one.routes?.some((route) => has("get", route)) ?? true);
  const open = shown.find((one) => one.name === section) ?? shown[0];
  useEffect(() => {
    document.title = `${open?.label ?? "Settings"} · Nacre`;
  }, [open]);
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
