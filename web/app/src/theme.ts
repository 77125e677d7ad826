import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEY = "nacre-theme";

export const theme = new Store<Theme>(kept());

export function setTheme(next: Theme): void {
  theme.set(next);
  show(next);
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // A browser that keeps nothing shows it until it is closed.
  }
}

export function nextTheme(): void {
  setTheme(isDark() ? "light" : "dark");
}

export function isDark(): boolean {
  const chosen = theme.get();
  return chosen === "dark" || (chosen === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

export function show(next: Theme): void {
  if (next === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
}

function kept(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}
