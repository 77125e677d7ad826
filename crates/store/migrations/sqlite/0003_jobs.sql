-- What is to be done later. Who has a lease is running; what failed stays for a while, to be looked at.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    payload TEXT NOT NULL,
    run_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 0),
    lease_owner TEXT,
    lease_until INTEGER,
    reason TEXT,
    created_at INTEGER NOT NULL,
    failed_at INTEGER,
    CONSTRAINT a_lease_ends CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CONSTRAINT what_failed_runs_no_more
        CHECK (failed_at IS NULL OR (lease_owner IS NULL AND reason IS NOT NULL))
) STRICT;

-- Partial on purpose: while a job runs, the same key makes a new row and leaves the running one be.
CREATE UNIQUE INDEX jobs_key ON jobs (kind, key) WHERE lease_owner IS NULL AND failed_at IS NULL;
CREATE INDEX jobs_due ON jobs (run_at) WHERE lease_owner IS NULL AND failed_at IS NULL;
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE lease_owner IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX jobs_session ON jobs (session_id) WHERE session_id IS NOT NULL;
