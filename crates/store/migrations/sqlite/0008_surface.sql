-- Which snapshot a fork began from. It stays, whatever the session goes on from later.
ALTER TABLE sessions ADD COLUMN origin_snapshot_id TEXT;
UPDATE sessions SET origin_snapshot_id = snapshot_id WHERE parent_id IS NOT NULL AND generation = 0;

-- Said in the session that this one was forked from.
ALTER TABLE messages ADD COLUMN inherited INTEGER NOT NULL DEFAULT 0 CHECK (inherited IN (0, 1));

-- Values that agents asked people for. A projection, as the transcript is; never the values.
CREATE TABLE env_requests (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    answered_at INTEGER,
    PRIMARY KEY (session_id, id)
) STRICT;

CREATE INDEX env_requests_open ON env_requests (session_id, position) WHERE answered_at IS NULL;

-- Snapshots of which nobody knows yet how much is in them.
CREATE INDEX snapshots_unmeasured ON snapshots (created_at)
    WHERE digest IS NULL AND removed_at IS NULL;

-- Repositories that an organisation works on, to choose from.
CREATE TABLE repositories (
    id TEXT PRIMARY KEY,
    organisation_id TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    name TEXT NOT NULL,
    default_branch TEXT,
    created_by TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (organisation_id, url)
) STRICT;

CREATE INDEX repositories_organisation ON repositories (organisation_id, id);
