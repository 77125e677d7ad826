import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

/** Now, again and again. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  isLoading: boolean;
  again: () => void;
}

/** What is asked for once, and again when `key` changes or somebody wants it. What is there stays shown meanwhile. */
export function useLoaded<T>(load: () => Promise<T>, key: string): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown; isLoading: boolean }>({
    key,
    value: null,
    error: null,
    isLoading: true,
  });
  const [count, setCount] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `count` is how somebody asks again.
  useEffect(() => {
    let isCurrent = true;
    setState((old) => ({ key, value: old.key === key ? old.value : null, error: null, isLoading: true }));
    latest
      .current()
      .then((value) => {
        if (isCurrent) setState({ key, value, error: null, isLoading: false });
      })
      .catch((error: unknown) => {
        if (isCurrent) setState((old) => ({ ...old, error, isLoading: false }));
      });
    return () => {
      isCurrent = false;
    };
  }, [key, count]);
  const again = useCallback(() => setCount((count) => count + 1), []);
  return { value: state.value, error: state.error, isLoading: state.isLoading, again };
}

/** While the page is looked at. */
export function useEvery(act: () => void, everyMs: number): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) latest.current();
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}

/** Closes a `<details>` menu when somebody chooses in it, or looks elsewhere. */
export function useMenu(): RefObject<HTMLDetailsElement | null> {
  const ref = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const menu = ref.current;
    if (menu === null) return;
    const shut = (event: Event) => {
      const isInside = event.target instanceof Node && menu.contains(event.target);
      const isChoice = event.target instanceof Element && event.target.closest(".menu-list") !== null;
      if (!isInside || isChoice) menu.open = false;
    };
    const leave = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary")?.focus();
    };
    document.addEventListener("click", shut);
    menu.addEventListener("keydown", leave);
    return () => {
      document.removeEventListener("click", shut);
      menu.removeEventListener("keydown", leave);
    };
  }, []);
  return ref;
}
