import type { Problem } from "./types.js";

/**
 * - `refused`: the server said no, and why (`problem`).
 * - `unreachable`: nothing answered, or the line broke.
 * - `protocol`: what answers does not speak /v1.
 * - `not_connected`: the command is not kept for later.
 * - `full`: too many commands wait.
 * - `ended`: the session is not followed any more.
 */
export type ErrorKind = "refused" | "unreachable" | "protocol" | "not_connected" | "full" | "ended";

export class ClientError extends Error {
  override readonly name = "ClientError";

  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly problem: Problem | null = null,
    /** When the server wants to be asked again. */
    readonly retryAfterMs: number | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same again can end better, without anybody changing anything. */
  get canRetry(): boolean {
    switch (this.kind) {
      case "unreachable":
      case "not_connected":
      case "full":
        return true;
      case "refused":
        // The first sending of the same call is still being done.
        if (this.problem?.code === "request-running") return true;
        return [408, 425, 429, 500, 502, 503, 504].includes(this.problem?.status ?? 0);
      default:
        return false;
    }
  }

  /** The stable code of what the server said. */
  get code(): string | null {
    return this.problem?.code ?? null;
  }
}

/** What a refusal says; made up from the status where whoever answers does not speak of problems. */
export function refusal(status: number, body: string, retryAfter: string | null = null): ClientError {
  const seconds = retryAfter === null ? NaN : Number(retryAfter);
  const wait = Number.isFinite(seconds) ? seconds * 1000 : null;
  const problem = problemIn(body) ?? {
    type: "about:blank",
    title: `${status}`,
    detail: `the server answered ${status} and did not say why`,
    code: `http_${status}`,
    status,
  };
  return new ClientError("refused", problem.detail, { ...problem, status }, wait);
}

function problemIn(body: string): Problem | null {
  try {
    const value = JSON.parse(body) as Partial<Problem> | null;
    return typeof value?.code === "string" && typeof value.detail === "string" ? (value as Problem) : null;
  } catch {
    return null;
  }
}
