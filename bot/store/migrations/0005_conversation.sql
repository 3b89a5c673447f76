-- What a conversation keeps beside its rows: its title, the summary of what is older than the replayed tail, and the
-- model a chat has chosen; what turns cost; and what is remembered of people and chats.

ALTER TABLE lanes ADD COLUMN model TEXT NOT NULL DEFAULT '';            -- preset chosen with /model; '' = default
ALTER TABLE lanes ADD COLUMN voice INTEGER NOT NULL DEFAULT 0;          -- 1: answers are read aloud too

ALTER TABLE sessions ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN used_us INTEGER NOT NULL DEFAULT 0;     -- when its newest row came, or it was chosen
ALTER TABLE sessions ADD COLUMN context_tokens INTEGER NOT NULL DEFAULT 0; -- of its last request, as far as estimated
ALTER TABLE sessions ADD COLUMN summary TEXT NOT NULL DEFAULT '';       -- of its rows up to summary_upto
ALTER TABLE sessions ADD COLUMN summary_upto INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET used_us = coalesce(
    (SELECT h.created_us FROM history h WHERE h.session_id = sessions.id ORDER BY h.id DESC LIMIT 1), created_us
);

CREATE INDEX turns_ended ON turns (ended_us) WHERE ended_us IS NOT NULL; -- what was used today; what is long settled

ALTER TABLE turns ADD COLUMN model TEXT NOT NULL DEFAULT '';            -- preset it runs with
ALTER TABLE turns ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;  -- of the input tokens
ALTER TABLE turns ADD COLUMN cost_micros INTEGER NOT NULL DEFAULT 0;    -- millionths of the configured currency

ALTER TABLE jobs ADD COLUMN model TEXT NOT NULL DEFAULT '';             -- preset of a task's turns
ALTER TABLE jobs ADD COLUMN session_id INTEGER;                         -- the conversation it was made in
ALTER TABLE subagents ADD COLUMN session_id INTEGER;                    -- the conversation that spawned it

ALTER TABLE people ADD COLUMN shares_memory INTEGER NOT NULL DEFAULT 0; -- shared facts may be shown in groups

-- Long-term memory: the files are the truth; this keeps what they said before, and how far history has been read.
CREATE TABLE memory_versions (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    home    TEXT NOT NULL,                     -- whose memory: a person's or a chat's key
    at_us   INTEGER NOT NULL,
    reason  TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX memory_versions_home ON memory_versions (home, id);
CREATE TABLE memory_marks (
    home       TEXT PRIMARY KEY,
    history_id INTEGER NOT NULL                -- rows up to this one have been read for memory
) STRICT, WITHOUT ROWID;
