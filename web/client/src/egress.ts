// What a session may reach, and was refused. Written by hand, beside `crates/wire/src/v1/egress.rs`.

export interface Egress {
  /** `open`, `proxy` or `none`. */
  policy: string;
  /** For good, beyond what every sandbox may. */
  allow: string[];
  /** For a time that is not over. */
  once: { rule: string; until: string }[];
  /** The newest first, each host and port once. */
  blocked: EgressBlocked[];
}

/** As `egress_blocked` tells it. */
export interface EgressBlocked {
  at: string;
  host: string;
  port: number;
  /** `not-listed`, `port-not-listed`, or what its address is: `private`, `metadata`, … */
  reason: string;
  /** Whether letting it through would help. */
  can_allow: boolean;
  /** More attempts that nobody was told of. */
  untold?: number;
}
