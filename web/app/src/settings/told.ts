// What newer routes tell, read with care: a server may say more than is known here, or less.

export interface Finding {
  name: string;
  status: "ok" | "info" | "warning" | "missing";
  found: string;
  /** What to do, where something is to be done. */
  advice: string;
}

export function readFindings(told: unknown): Finding[] {
  return listIn(told, "findings", "checks", "items").map((one) => ({
    name: text(one["name"]),
    status: statusOf(text(one["status"])),
    found: text(one["found"] ?? one["detail"] ?? one["message"]),
    advice: text(one["advice"] ?? one["hint"]),
  }));
}

function statusOf(word: string): Finding["status"] {
  return word === "ok" || word === "info" || word === "missing" ? word : "warning";
}

export interface Used {
  /** What takes room, the largest first. */
  parts: { name: string; bytes: number; count: number | null }[];
  total: number;
  free: number | null;
}

export function readUsed(told: unknown): Used {
  const from = object(told);
  const listed = listIn(told, "parts").map((one) => [text(one["name"]), one] as const);
  const members = Object.entries(from).map(([name, value]) => [name, object(value)] as const);
  const parts = [...listed, ...members]
    .map(([name, one]) => ({
      name: name.replaceAll("_", " "),
      bytes: number(one["bytes"]),
      count: number(one["count"]),
    }))
    .filter((part): part is Used["parts"][number] => part.name !== "" && part.bytes !== null)
    .sort((one, other) => other.bytes - one.bytes);
  const sum = parts.reduce((all, part) => all + part.bytes, 0);
  return { parts, total: number(from["total_bytes"]) ?? sum, free: number(from["free_bytes"]) };
}

export interface Reach {
  policy: string;
  /** Rules by what they are for, in the server's own words. */
  lists: { name: string; rules: string[] }[];
}

export function readReach(told: unknown): Reach {
  const from = object(told);
  const lists = Object.entries(from)
    .filter((entry): entry is [string, string[]] => isRules(entry[1]))
    .map(([name, rules]) => ({ name, rules }));
  return { policy: text(from["policy"] ?? from["default"]), lists };
}

export interface Repo {
  id: string;
  url: string;
  branch: string;
  createdAt: string;
}

export function readRepos(told: unknown): Repo[] {
  return listIn(told, "items", "repos")
    .map((one) => ({
      id: text(one["id"]),
      url: text(one["url"]),
      branch: text(one["branch"] ?? one["default_branch"]),
      createdAt: text(one["created_at"]),
    }))
    .filter((repo) => repo.url !== "");
}

function isRules(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

function listIn(told: unknown, ...names: string[]): Record<string, unknown>[] {
  const from = object(told);
  const found = Array.isArray(told) ? told : names.map((name) => from[name]).find(Array.isArray);
  return Array.isArray(found) ? found.map(object) : [];
}

function object(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}
