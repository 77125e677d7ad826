import type { v1 } from "@nacre/client";

/** In millionths of a dollar, where the server knows the price. */
export function costOf(session: v1.Session | null): number | null {
  const told = session as { usage?: { cost_micros?: unknown } | null } | null;
  const cost = told?.usage?.cost_micros;
  return typeof cost === "number" ? cost : null;
}
