//! Where SQLite and PostgreSQL differ. Nowhere else is one told from the other.

use sqlx::error::DatabaseError;

use crate::connection::Connection;

macro_rules! usage_of_sessions {
    ($list:literal) => {
        concat!(
            "SELECT session_id, CAST(CASE WHEN prompt_id IS NULL THEN 1 ELSE 0 END AS BIGINT) AS nobodys, ",
            crate::usage::sums!(),
            " FROM usage WHERE session_id IN (",
            $list,
            ") GROUP BY session_id, nobodys"
        )
    };
}

macro_rules! work_of_sessions {
    ($list:literal) => {
        concat!(
            "SELECT session_id, 'queued' AS what FROM prompts
             WHERE status = 'queued' AND session_id IN (",
            $list,
            ") UNION SELECT session_id, 'under_way' FROM prompts
             WHERE status IN ('dispatched', 'accepted') AND session_id IN (",
            $list,
            ") UNION SELECT session_id, 'asked' FROM questions
             WHERE closed_at IS NULL AND session_id IN (",
            $list,
            ") UNION SELECT session_id, 'asked' FROM actions
             WHERE status = 'pending' AND expires_at > $2 AND session_id IN (",
            $list,
            ")"
        )
    };
}

/// Holds the row until the transaction ends. SQLite has but one writer, and holds everything.
pub(crate) const FENCE: Sql = Sql {
    sqlite: "SELECT last_seq, first_seq, last_prompt FROM sessions WHERE id = $1 AND term = $2",
    postgres: "SELECT last_seq, first_seq, last_prompt FROM sessions WHERE id = $1 AND term = $2 FOR UPDATE",
};

/// Takes jobs that are due. Workers do not wait for each other.
pub(crate) const CLAIM: Sql = Sql {
    sqlite: "UPDATE jobs SET lease_owner = $1, lease_until = $2, attempt = attempt + 1
        WHERE id IN (SELECT id FROM jobs
                     WHERE lease_owner IS NULL AND failed_at IS NULL AND run_at <= $3 AND kind = $4
                     ORDER BY run_at, id LIMIT $5)
        RETURNING id, kind, key, session_id, payload, run_at, attempt, created_at, reason",
    postgres: "UPDATE jobs SET lease_owner = $1, lease_until = $2, attempt = attempt + 1
        WHERE id IN (SELECT id FROM jobs
                     WHERE lease_owner IS NULL AND failed_at IS NULL AND run_at <= $3 AND kind = $4
                     ORDER BY run_at, id LIMIT $5 FOR UPDATE SKIP LOCKED)
        RETURNING id, kind, key, session_id, payload, run_at, attempt, created_at, reason",
};

/// Whoever asks whether there is an organisation, and makes one if not, does it alone.
pub(crate) const LOCK_ORGANISATIONS: Sql = Sql {
    sqlite: "SELECT 1",
    postgres: "LOCK TABLE organisations IN SHARE ROW EXCLUSIVE MODE",
};

/// What requests of several sessions took, apart for those of no prompt. A list is bound as JSON:
/// neither takes an array as the other does.
pub(crate) const USAGE_OF_SESSIONS: Sql = Sql {
    sqlite: usage_of_sessions!("SELECT value FROM json_each($1)"),
    postgres: usage_of_sessions!("SELECT jsonb_array_elements_text(CAST($1 AS JSONB))"),
};

/// What several sessions have to do, a row for each that is so.
pub(crate) const WORK_OF_SESSIONS: Sql = Sql {
    sqlite: work_of_sessions!("SELECT value FROM json_each($1)"),
    postgres: work_of_sessions!("SELECT jsonb_array_elements_text(CAST($1 AS JSONB))"),
};

/// Tables as they are, for whoever wants to know which migrations were made.
pub(crate) const HAS_MIGRATIONS: Sql = Sql {
    sqlite: "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'",
    postgres: "SELECT count(*) FROM pg_tables
        WHERE schemaname = current_schema() AND tablename = 'migrations'",
};

/// One text for each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    sqlite: &'static str,
    postgres: &'static str,
}

impl Sql {
    pub(crate) fn on(self, connection: &Connection<'_>) -> &'static str {
        match connection {
            Connection::Sqlite(_) => self.sqlite,
            Connection::Postgres(_) => self.postgres,
        }
    }
}

/// Somebody else has it; nothing was written, and trying again helps.
pub(crate) fn is_busy(error: &dyn DatabaseError) -> bool {
    // SQLite: SQLITE_BUSY and SQLITE_LOCKED, with what may follow them.
    const SQLITE: [&str; 6] = ["5", "6", "261", "262", "517", "773"];
    // PostgreSQL: serialization failure, deadlock, lock not available.
    const POSTGRES: [&str; 3] = ["40001", "40P01", "55P03"];
    match error.code().as_deref() {
        Some(code) => SQLITE.contains(&code) || POSTGRES.contains(&code),
        None => false,
    }
}

/// PostgreSQL: what was to be written is no value that it can hold. SQLite: not of its type.
pub(crate) fn is_unfit(error: &dyn DatabaseError) -> bool {
    match error.code() {
        Some(code) => code == "3091" || (code.len() == 5 && code.starts_with("22")),
        None => false,
    }
}

/// SQLite: it is not a database, or a damaged one.
pub(crate) fn is_damaged(error: &dyn DatabaseError) -> bool {
    matches!(
        error.code().as_deref(),
        Some("11" | "26" | "267" | "523" | "779")
    )
}

/// SQLite: the file or its directory may not be written.
pub(crate) fn is_read_only(error: &dyn DatabaseError) -> bool {
    match error.code().as_deref().map(str::parse::<u32>) {
        // The low byte is the code, the rest says more.
        Some(Ok(code)) => code & 0xff == 8,
        _ => false,
    }
}
