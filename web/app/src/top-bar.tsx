import { caller, signOut } from "./api";
import { MAIN_KEY, openKeys } from "./keys";
import { openPalette } from "./palette";
import { Link, type Page } from "./router";
import { useStore } from "./store";
import { isDark, nextTheme, theme } from "./theme";
import { Icon } from "./ui/icon";
import { complain } from "./ui/toasts";
import { useMenu } from "./ui/use";

export function TopBar({ page }: { page: Page }) {
  const who = useStore(caller);
  useStore(theme);
  const menu = useMenu();
  const isSessions = page.page === "sessions" || page.page === "session";
  return (
    <nav className="top-bar" aria-label="Nacre">
      <Link to="/" className="brand">
        <img src="/icon.svg" alt="" width="20" height="20" />
        Nacre
      </Link>
      <Link to="/" aria-current={isSessions ? "page" : undefined}>
        Sessions
      </Link>
      <Link to="/settings/models" aria-current={page.page === "settings" ? "page" : undefined}>
        Settings
      </Link>
      <span className="grow" />
      <button type="button" className="button quiet small" onClick={openPalette}>
        Commands <kbd>{MAIN_KEY} K</kbd>
      </button>
      <button type="button" className="button quiet small icon wide-only" aria-label="Keys" onClick={openKeys}>
        <Icon name="keyboard" />
      </button>
      <button type="button" className="button quiet small icon" aria-label="Light or dark" onClick={nextTheme}>
        <Icon name={isDark() ? "sun" : "moon"} />
      </button>
      <details className="menu" ref={menu}>
        <summary className="button quiet small">
          <span className="visually-hidden">Account: </span>
          {who?.user?.name ?? "Service"}
        </summary>
        <div className="menu-list">
          <span className="menu-note">
            {who?.user?.email ?? "a service's token"} · {who?.role}
          </span>
          <button type="button" onClick={() => void signOut().catch(complain)}>
            Sign out
          </button>
        </div>
      </details>
    </nav>
  );
}
