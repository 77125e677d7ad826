import { type AnchorHTMLAttributes, type MouseEvent, useSyncExternalStore } from "react";
import { Store } from "./store";

/** Where in the page somebody is. */
const place = new Store(location.pathname);
addEventListener("popstate", () => place.set(location.pathname));

export function usePath(): string {
  return useSyncExternalStore(place.subscribe, place.get);
}

export function navigate(to: string): void {
  if (to === location.pathname) return;
  history.pushState(null, "", to);
  place.set(location.pathname);
}

/** The same place under another name: "back" does not lead to the old one. */
export function rename(to: string): void {
  history.replaceState(null, "", to);
  place.set(location.pathname);
}

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> & { to: string };

export function Link({ to, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !isPlain) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={to} onClick={follow} {...rest} />;
}

export type Page =
  | { page: "sessions" }
  | { page: "session"; id: string; panel: string | null }
  | { page: "compare"; one: string; other: string }
  | { page: "settings"; section: string }
  | { page: "login" }
  | { page: "nowhere" };

export function pageAt(path: string): Page {
  const [first, second, third] = path
    .split("/")
    .filter((name) => name !== "")
    .map(decoded);
  switch (first) {
    case undefined:
      return { page: "sessions" };
    case "sessions":
      return second === undefined ? { page: "sessions" } : { page: "session", id: second, panel: third ?? null };
    case "compare":
      return second !== undefined && third !== undefined
        ? { page: "compare", one: second, other: third }
        : { page: "nowhere" };
    case "settings":
      return { page: "settings", section: second ?? "models" };
    case "login":
      return { page: "login" };
    default:
      return { page: "nowhere" };
  }
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
