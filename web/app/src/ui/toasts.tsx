import { useEffect } from "react";
import { words } from "../api";
import { Store, useStore } from "../store";

interface Toast {
  id: number;
  text: string;
  tone: "plain" | "bad";
  action?: { label: string; act: () => void };
  ms: number;
}

const MOST = 4;
const toasts = new Store<readonly Toast[]>([]);
let last = 0;

export function tell(text: string, action?: Toast["action"], ms = 6000): void {
  last += 1;
  const toast: Toast = { id: last, text, tone: "plain", ms, ...(action ? { action } : {}) };
  toasts.change((all) => [...all, toast].slice(-MOST));
}

export function complain(error: unknown): void {
  last += 1;
  const toast: Toast = { id: last, text: words(error), tone: "bad", ms: 9000 };
  toasts.change((all) => [...all, toast].slice(-MOST));
}

/** Does it after a while, unless somebody wants it back. */
export function unlessUndone(text: string, act: () => void, undo: () => void, ms = 6000): void {
  let isUndone = false;
  tell(
    text,
    {
      label: "Undo",
      act: () => {
        isUndone = true;
        undo();
      },
    },
    ms,
  );
  setTimeout(() => {
    if (!isUndone) act();
  }, ms);
}

function dismiss(id: number): void {
  toasts.change((all) => all.filter((toast) => toast.id !== id));
}

export function Toasts() {
  const all = useStore(toasts);
  return (
    <section className="toasts" aria-label="Messages" aria-live="polite">
      {all.map((toast) => (
        <Shown key={toast.id} toast={toast} />
      ))}
    </section>
  );
}

function Shown({ toast }: { toast: Toast }) {
  useEffect(() => {
    const timer = setTimeout(() => dismiss(toast.id), toast.ms);
    return () => clearTimeout(timer);
  }, [toast]);
  const act = () => {
    toast.action?.act();
    dismiss(toast.id);
  };
  return (
    <div className="toast" data-tone={toast.tone} role={toast.tone === "bad" ? "alert" : undefined}>
      <span className="grow">{toast.text}</span>
      <button type="button" className="button small" onClick={act}>
        {toast.action?.label ?? "Dismiss"}
      </button>
    </div>
  );
}
