import { lazy, Suspense, useEffect, useState } from "react";
import { caller, recognise, words } from "./api";
import { Keys } from "./keys";
import { Palette } from "./palette";
import { Link, type Page, pageAt, usePath } from "./router";
import { SessionPage } from "./session/view";
import { NewSession } from "./sessions/new";
import { SessionsPage } from "./sessions/page";
import { SignIn } from "./sign-in";
import { useStore } from "./store";
import { TopBar } from "./top-bar";
import { Confirm } from "./ui/confirm";
import { Toasts } from "./ui/toasts";

const ComparePage = lazy(() => import("./compare/page"));
const SettingsPage = lazy(() => import("./settings/page"));

export function App() {
  const path = usePath();
  const who = useStore(caller);
  const [error, setError] = useState<unknown>(null);
  const page = pageAt(path);
  const isLogin = page.page === "login";
  useEffect(() => {
    if (isLogin) return;
    recognise().catch(setError);
  }, [isLogin]);
  if (isLogin || who === null) return <SignIn />;
  if (who === undefined) {
    return error === null ? null : (
      <main className="empty" role="alert">
        <h1>Nacre cannot be reached</h1>
        <p>{words(error)}</p>
        <button type="button" className="button" onClick={() => location.reload()}>
          Try again
        </button>
      </main>
    );
  }
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <TopBar page={page} />
      <div className="body" id="main">
        <Suspense fallback={null}>{shown(page)}</Suspense>
      </div>
      <NewSession />
      <Palette page={page} />
      <Keys />
      <Confirm />
      <Toasts />
    </>
  );
}

function shown(page: Page) {
  switch (page.page) {
    case "sessions":
      return <SessionsPage />;
    case "session":
      return <SessionPage key={page.id} id={page.id} panel={page.panel} />;
    case "compare":
      return <ComparePage one={page.one} other={page.other} />;
    case "settings":
      return <SettingsPage section={page.section} />;
    default:
      return (
        <main className="empty">
          <h1>There is nothing here</h1>
          <Link to="/">All sessions</Link>
        </main>
      );
  }
}
