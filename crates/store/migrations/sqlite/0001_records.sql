-- Who there is.

CREATE TABLE organisations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE memberships (
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'member', 'viewer')),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (organisation_id, user_id)
) STRICT;

CREATE INDEX memberships_user ON memberships (user_id);

-- Never the token itself. Without a user it is a service's.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX tokens_organisation ON tokens (organisation_id, id);

-- What a user has. `state` is the whole state; the columns beside it mirror what the checks and the
-- sweeps need. `term` counts its owners, and goes on after a lease is gone.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id),
    created_by TEXT REFERENCES users (id),
    parent_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    title TEXT NOT NULL,
    type TEXT NOT NULL CHECK (type IN ('coding', 'setup', 'cli')),
    channel TEXT NOT NULL
        CHECK (channel IN ('web', 'cli', 'api', 'slack', 'discord', 'telegram', 'automation')),
    provider TEXT NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('starting', 'running', 'migrating', 'paused', 'suspended', 'stopped')),
    state TEXT NOT NULL,
    generation INTEGER NOT NULL CHECK (generation >= 0),
    sandbox_id TEXT,
    snapshot_id TEXT,
    reason TEXT,
    degraded INTEGER NOT NULL CHECK (degraded IN (0, 1)),
    deadline_at INTEGER,
    expires_at INTEGER,
    paused_at INTEGER,
    ended_at INTEGER,
    term INTEGER NOT NULL CHECK (term >= 0),
    last_seq INTEGER NOT NULL CHECK (last_seq >= 0),
    first_seq INTEGER NOT NULL CHECK (first_seq >= 1 AND first_seq <= last_seq + 1),
    last_prompt INTEGER NOT NULL CHECK (last_prompt >= 0),
    created_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    archived_at INTEGER,
    CONSTRAINT a_sandbox_serves_exactly_who_runs
        CHECK ((status IN ('running', 'migrating')) = (sandbox_id IS NOT NULL)),
    CONSTRAINT a_sandbox_has_a_generation CHECK (sandbox_id IS NULL OR generation >= 1),
    CONSTRAINT only_a_sandbox_expires CHECK (expires_at IS NULL OR sandbox_id IS NOT NULL),
    CONSTRAINT a_migration_has_a_deadline CHECK (status <> 'migrating' OR deadline_at IS NOT NULL),
    CONSTRAINT the_stopped_wait_for_nothing CHECK (status <> 'stopped' OR deadline_at IS NULL),
    CONSTRAINT rest_has_a_reason
        CHECK ((status IN ('paused', 'suspended', 'stopped')) = (reason IS NOT NULL)),
    CONSTRAINT rest_has_a_beginning
        CHECK ((status IN ('paused', 'suspended')) = (paused_at IS NOT NULL)),
    CONSTRAINT only_the_stopped_have_ended CHECK ((status = 'stopped') = (ended_at IS NOT NULL)),
    CONSTRAINT only_those_at_rest_are_degraded
        CHECK (degraded = 0 OR status IN ('paused', 'suspended'))
) STRICT;

CREATE INDEX sessions_organisation ON sessions (organisation_id, id);
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sessions_deadline ON sessions (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX sessions_status ON sessions (status, last_active_at);

-- Who owns a session now.
CREATE TABLE leases (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    term INTEGER NOT NULL CHECK (term >= 1),
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX leases_expiry ON leases (expires_at);
CREATE INDEX leases_owner ON leases (owner);

-- One row per generation. A number is never used again.
CREATE TABLE sandboxes (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    generation INTEGER NOT NULL CHECK (generation >= 1),
    id TEXT NOT NULL,
    provider TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('requested', 'booting', 'ready', 'draining', 'gone', 'lost')),
    created_at INTEGER NOT NULL,
    ready_at INTEGER,
    ended_at INTEGER,
    PRIMARY KEY (session_id, generation),
    CHECK ((status IN ('gone', 'lost')) = (ended_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX sandboxes_id ON sandboxes (provider, id);
CREATE INDEX sandboxes_live ON sandboxes (provider, status) WHERE ended_at IS NULL;

-- `digest`, `bytes` and `files` follow when they are computed.
CREATE TABLE snapshots (
    id TEXT PRIMARY KEY,
    organisation_id TEXT REFERENCES organisations (id),
    session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    generation INTEGER,
    provider TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('disk', 'base', 'memory', 'pause')),
    kept TEXT NOT NULL CHECK (kept IN ('disk', 'memory')),
    recovered INTEGER NOT NULL CHECK (recovered IN (0, 1)),
    message TEXT,
    digest TEXT,
    bytes INTEGER,
    files INTEGER,
    took_ms INTEGER,
    frozen_ms INTEGER,
    created_at INTEGER NOT NULL,
    removed_at INTEGER
) STRICT;

CREATE INDEX snapshots_session ON snapshots (session_id, created_at);

CREATE TABLE audit (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    session_id TEXT,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    body TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE INDEX audit_organisation ON audit (organisation_id, id);
CREATE INDEX audit_session ON audit (session_id, id) WHERE session_id IS NOT NULL;
