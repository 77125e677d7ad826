-- Values that are sealed, and for whom. `scope_id` is empty for the whole organisation's; what is a
-- session's goes with it.
CREATE TABLE secrets (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    scope TEXT NOT NULL CHECK (scope IN ('organisation', 'repository', 'session', 'model', 'git')),
    scope_id TEXT NOT NULL,
    session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL CHECK (length(nonce) = 12),
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organisation_id, scope, scope_id, name),
    CONSTRAINT only_the_organisation_has_no_name CHECK ((scope = 'organisation') = (scope_id = '')),
    CONSTRAINT what_is_a_sessions_goes_with_it CHECK ((scope = 'session') = (session_id IS NOT NULL))
) STRICT;

CREATE INDEX secrets_session ON secrets (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX secrets_key ON secrets (key_id, id);

-- Where the file lies follows from the id.
CREATE TABLE uploads (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    created_by TEXT REFERENCES users (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX uploads_expiry ON uploads (expires_at);
CREATE INDEX uploads_organisation ON uploads (organisation_id);

-- One-time codes. Never the code itself.
CREATE TABLE logins (
    hash TEXT PRIMARY KEY CHECK (length(hash) = 64),
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER
) STRICT;

CREATE INDEX logins_expiry ON logins (expires_at);

-- Browsers that are signed in. Never the cookie itself.
CREATE TABLE browser_sessions (
    hash TEXT PRIMARY KEY CHECK (length(hash) = 64),
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL
) STRICT;

CREATE INDEX browser_sessions_user ON browser_sessions (user_id);
CREATE INDEX browser_sessions_expiry ON browser_sessions (expires_at);

-- Links that let somebody see one port of a session. Never the link itself.
CREATE TABLE shares (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64),
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    port INTEGER NOT NULL CHECK (port BETWEEN 1 AND 65535),
    created_by TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE INDEX shares_session ON shares (session_id, id);

-- One row per request to a model. The organisation's sums outlive its sessions.
CREATE TABLE usage (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    prompt_id TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL CHECK (input_tokens >= 0),
    output_tokens INTEGER NOT NULL CHECK (output_tokens >= 0),
    cache_read_tokens INTEGER NOT NULL CHECK (cache_read_tokens >= 0),
    cache_write_tokens INTEGER NOT NULL CHECK (cache_write_tokens >= 0),
    reasoning_tokens INTEGER NOT NULL CHECK (reasoning_tokens >= 0),
    cost_micros INTEGER CHECK (cost_micros >= 0),
    status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 999),
    took_ms INTEGER NOT NULL CHECK (took_ms >= 0),
    at INTEGER NOT NULL
) STRICT;

CREATE INDEX usage_session ON usage (session_id, prompt_id) WHERE session_id IS NOT NULL;
CREATE INDEX usage_organisation ON usage (organisation_id, at);

-- Requests that are done once, and what was answered. Who began has a lease: if they die, the next
-- attempt may begin.
CREATE TABLE idempotency (
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    lease_until INTEGER NOT NULL,
    status INTEGER CHECK (status BETWEEN 100 AND 599),
    body TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (organisation_id, key),
    CONSTRAINT an_answer_has_a_body CHECK ((status IS NULL) = (body IS NULL))
) STRICT;

CREATE INDEX idempotency_age ON idempotency (created_at);

-- How a session came to what it is at: few among its events, and asked for on every look.
CREATE INDEX events_status ON events (session_id, seq) WHERE kind = 'status';
