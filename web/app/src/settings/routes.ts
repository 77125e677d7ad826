// What this server has: its own description says so.

import { useLoaded } from "../ui/use";

type Described = { paths?: Record<string, Record<string, unknown>> };

let described: Promise<Described> | null = null;

function load(): Promise<Described> {
  described ??= fetch("/openapi.json").then(
    (answer) => answer.json() as Promise<Described>,
    () => ({}),
  );
  return described;
}

/** Whether it has a route; until that is known, no. */
export function useRoutes(): (method: string, path: string) => boolean {
  const loaded = useLoaded(load, "routes");
  return (method, path) => loaded.value?.paths?.[path]?.[method] !== undefined;
}

export function useRoute(method: string, path: string): boolean {
  return useRoutes()(method, path);
}
