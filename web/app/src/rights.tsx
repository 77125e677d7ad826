// Who may only look is offered nothing that the server would refuse.

import type { ReactNode } from "react";
import { caller } from "./api";
import { useStore } from "./store";

export function mayChange(): boolean {
  return caller.get()?.role !== "viewer";
}

export function useMayChange(): boolean {
  return useStore(caller)?.role !== "viewer";
}

/** What changes something. */
export function IfMember({ children }: { children: ReactNode }) {
  return useMayChange() ? children : null;
}
