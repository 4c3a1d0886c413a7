-- A session: who talks with the agent, and how far they have come. Times are Unix seconds.
CREATE TABLE sessions(
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    owner      BLOB NOT NULL CHECK(length(owner) = 32),
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    turn       INTEGER NOT NULL,
    iteration  INTEGER NOT NULL,
    mode       TEXT NOT NULL,
    turns_left INTEGER,
    title      TEXT,
    expires_at REAL NOT NULL
) STRICT;
CREATE INDEX sessions_expiry ON sessions(expires_at);
CREATE INDEX sessions_owner ON sessions(owner, updated_at);

-- The conversation as the model sees it, one JSON object a row.
CREATE TABLE messages(
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    json    TEXT NOT NULL,
    PRIMARY KEY(session, seq)
) STRICT, WITHOUT ROWID;

-- What happened, as people see it, one JSON object a row.
CREATE TABLE trace(
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    json    TEXT NOT NULL,
    PRIMARY KEY(session, seq)
) STRICT, WITHOUT ROWID;

-- Turns. One without an end is running, or its host was killed.
CREATE TABLE runs(
    session    INTEGER NOT NULL,
    turn       INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at   REAL,
    outcome    TEXT CHECK(outcome IN ('completed', 'failed', 'interrupted')),
    preview    TEXT NOT NULL,
    PRIMARY KEY(session, turn)
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_running ON runs(session, turn) WHERE ended_at IS NULL;
