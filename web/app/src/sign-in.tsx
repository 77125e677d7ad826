import { type FormEvent, useEffect, useState } from "react";
import { signIn, words } from "./api";
import { rename } from "./router";

/** By the link that `nacre login` prints, or by the code in it. */
export function SignIn() {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const enter = (code: string) => {
    setBusy(true);
    setError(null);
    signIn(code)
      .then(() => rename(location.pathname === "/login" ? "/" : location.pathname))
      .catch(setError)
      .finally(() => setBusy(false));
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: a link is followed once.
  useEffect(() => {
    const code = location.hash.slice(1);
    // Good once, and gone from the address before anything else.
    if (location.pathname === "/login" && code !== "") {
      history.replaceState(null, "", "/login");
      enter(code);
    }
    document.title = "Sign in · Nacre";
  }, []);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    enter(String(new FormData(event.currentTarget).get("code") ?? ""));
  };
  return (
    <main className="sign-in">
      <form onSubmit={submit}>
        <img src="/icon.svg" alt="" width="40" height="40" />
        <h1>Sign in to Nacre</h1>
        <p className="muted">
          Run <code>nacre login</code> where the server runs, and open the link that it prints. It is good once.
        </p>
        <label className="field">
          <span>Link or code</span>
          <input className="input mono" name="code" autoComplete="off" required />
        </label>
        {error === null ? null : (
          <p className="turn-error" role="alert">
            {words(error)}
          </p>
        )}
        <button type="submit" className="button primary" disabled={isBusy}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
