-- Sustained goals: a chain of turns of one session. At most one of them is under way in a session.

CREATE TABLE goals (
    id          TEXT PRIMARY KEY,
    session_id  INTEGER NOT NULL,
    channel     TEXT NOT NULL,                 -- the address its turns answer to
    chat_id     TEXT NOT NULL,
    thread_id   TEXT,
    chat_type   TEXT NOT NULL,
    creator_id  TEXT NOT NULL,                 -- whose rights its turns have
    reply_to    TEXT NOT NULL,
    objective   TEXT NOT NULL,
    plan        TEXT NOT NULL,                 -- JSON: [[text, done], ...]
    budget      TEXT NOT NULL,                 -- JSON: {"steps", "minutes", "tokens"}
    state       TEXT NOT NULL,
    turns       INTEGER NOT NULL DEFAULT 0,    -- continuations that have ended; numbers the next one
    steps       INTEGER NOT NULL DEFAULT 0,
    tokens      INTEGER NOT NULL DEFAULT 0,
    idle        INTEGER NOT NULL DEFAULT 0,    -- turns in a row in which no call succeeded
    opened_turn INTEGER NOT NULL,
    opened_step INTEGER NOT NULL,
    started_us  INTEGER NOT NULL,
    ended_us    INTEGER,
    recap       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX goals_current ON goals (session_id) WHERE ended_us IS NULL;
