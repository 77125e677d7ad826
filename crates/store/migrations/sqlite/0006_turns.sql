-- What a request to a model was for, and whether its answer said what it took.
ALTER TABLE usage ADD COLUMN by_subagent INTEGER NOT NULL DEFAULT 0 CHECK (by_subagent IN (0, 1));
ALTER TABLE usage ADD COLUMN is_complete INTEGER NOT NULL DEFAULT 1 CHECK (is_complete IN (0, 1));

-- A user's own tokens of git hosts, beside those of the organisation. A check cannot be changed, so
-- the table is made anew.
CREATE TABLE secrets_anew (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    scope TEXT NOT NULL
        CHECK (scope IN ('organisation', 'repository', 'session', 'model', 'git', 'user_git')),
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

INSERT INTO secrets_anew
    SELECT id, organisation_id, scope, scope_id, session_id, name, key_id, nonce, ciphertext,
        created_at, updated_at
    FROM secrets;
DROP TABLE secrets;
ALTER TABLE secrets_anew RENAME TO secrets;

CREATE INDEX secrets_session ON secrets (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX secrets_key ON secrets (key_id, id);

-- Pull requests that came out of sessions, as their forges last showed them.
CREATE TABLE pulls (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    repository TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    title TEXT NOT NULL,
    url TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'merged')),
    branch TEXT NOT NULL,
    base TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, host, repository, number)
) STRICT;
