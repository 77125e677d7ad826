-- What happened in a session, in order and without gap.
CREATE TABLE events (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT;

-- How far a runner's numbered frames are committed, for each boot.
CREATE TABLE boots (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    boot TEXT NOT NULL,
    generation INTEGER NOT NULL CHECK (generation >= 1),
    seen INTEGER NOT NULL CHECK (seen >= 0),
    first_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, boot)
) STRICT;

-- The agent's conversation on each channel, and what else a channel remembers.
CREATE TABLE channels (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    agent_session TEXT,
    body TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, channel)
) STRICT;

-- `position` is the order in which they were asked.
CREATE TABLE prompts (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    channel TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('followup', 'steer', 'collect')),
    status TEXT NOT NULL
        CHECK (status IN ('queued', 'dispatched', 'accepted', 'finished', 'failed', 'interrupted')),
    generation INTEGER,
    boot TEXT,
    reason TEXT,
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    dispatched_at INTEGER,
    accepted_at INTEGER,
    ended_at INTEGER,
    PRIMARY KEY (session_id, id),
    UNIQUE (session_id, position),
    CONSTRAINT what_was_dispatched_went_somewhere
        CHECK ((generation IS NULL) = (boot IS NULL) AND (generation IS NULL) = (dispatched_at IS NULL)),
    CONSTRAINT what_is_queued_went_nowhere CHECK (status <> 'queued' OR generation IS NULL),
    CONSTRAINT what_is_under_way_is_somewhere
        CHECK (status NOT IN ('dispatched', 'accepted', 'interrupted') OR generation IS NOT NULL),
    CONSTRAINT what_was_accepted_says_when CHECK (status <> 'accepted' OR accepted_at IS NOT NULL),
    CONSTRAINT what_ended_says_when
        CHECK ((status IN ('finished', 'failed', 'interrupted')) = (ended_at IS NOT NULL))
) STRICT;

-- A runner holds at most one prompt per channel.
CREATE UNIQUE INDEX prompts_under_way ON prompts (session_id, channel)
    WHERE status IN ('dispatched', 'accepted');
CREATE INDEX prompts_queued ON prompts (session_id, position) WHERE status = 'queued';

-- The transcript: a projection of the log, written with it. `position` is the number of the event
-- that opened a message or brought a part first.
CREATE TABLE messages (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
    channel TEXT NOT NULL,
    prompt_id TEXT,
    author TEXT,
    agent_session TEXT,
    created_at INTEGER NOT NULL,
    done_at INTEGER,
    reason TEXT CHECK (reason IN ('end_turn', 'error', 'canceled')),
    error TEXT,
    usage TEXT,
    removed_seq INTEGER,
    reverted_seq INTEGER,
    PRIMARY KEY (session_id, id),
    UNIQUE (session_id, position),
    CHECK ((done_at IS NULL) = (reason IS NULL))
) STRICT;

CREATE TABLE parts (
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    content TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (session_id, message_id, id),
    FOREIGN KEY (session_id, message_id) REFERENCES messages (session_id, id) ON DELETE CASCADE
) STRICT;

CREATE INDEX parts_order ON parts (session_id, message_id, position, place);

-- What the agent asks a person. A projection too.
CREATE TABLE questions (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('question', 'permission')),
    position INTEGER NOT NULL,
    channel TEXT NOT NULL,
    body TEXT NOT NULL,
    outcome TEXT,
    asked_at INTEGER NOT NULL,
    closed_at INTEGER,
    PRIMARY KEY (session_id, kind, id),
    CHECK ((outcome IS NULL) = (closed_at IS NULL))
) STRICT;

CREATE INDEX questions_open ON questions (session_id, position) WHERE closed_at IS NULL;
