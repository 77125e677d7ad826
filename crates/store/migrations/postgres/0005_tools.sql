-- What sessions showed for their work. Where a file lies follows from its id. `request` is the call's
-- own name: delivered again it keeps nothing twice.
CREATE TABLE evidence (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    request TEXT NOT NULL,
    path TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL CHECK (size >= 0),
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (session_id, request, path)
);

CREATE INDEX evidence_session ON evidence (session_id, id);

-- What agents asked to have done outside. One that is pending waits for a person; one that is approved
-- is being done, and is done again by whoever finds it so.
CREATE TABLE actions (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    request TEXT NOT NULL,
    integration TEXT NOT NULL,
    action TEXT NOT NULL,
    params TEXT NOT NULL,
    risk TEXT NOT NULL CHECK (risk IN ('read', 'write', 'danger')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'completed', 'denied', 'failed')),
    result TEXT,
    message TEXT,
    decided_by TEXT,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    UNIQUE (session_id, request),
    CONSTRAINT what_is_completed_has_a_result CHECK ((status = 'completed') = (result IS NOT NULL))
);

CREATE INDEX actions_session ON actions (session_id, id);

-- What a setup session found out, for those that are made from it. Each is a JSON list.
CREATE TABLE setups (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    services TEXT,
    env_files TEXT,
    updated_at BIGINT NOT NULL
);
