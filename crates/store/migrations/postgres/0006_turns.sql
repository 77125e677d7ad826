-- What a request to a model was for, and whether its answer said what it took.
ALTER TABLE usage ADD COLUMN by_subagent BIGINT NOT NULL DEFAULT 0 CHECK (by_subagent IN (0, 1));
ALTER TABLE usage ADD COLUMN is_complete BIGINT NOT NULL DEFAULT 1 CHECK (is_complete IN (0, 1));

-- A user's own tokens of git hosts, beside those of the organisation.
ALTER TABLE secrets DROP CONSTRAINT secrets_scope_check;
ALTER TABLE secrets ADD CONSTRAINT secrets_scope_check
    CHECK (scope IN ('organisation', 'repository', 'session', 'model', 'git', 'user_git'));

-- Pull requests that came out of sessions, as their forges last showed them.
CREATE TABLE pulls (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    repository TEXT NOT NULL,
    number BIGINT NOT NULL CHECK (number >= 0),
    title TEXT NOT NULL,
    url TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'merged')),
    branch TEXT NOT NULL,
    base TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, host, repository, number)
);
