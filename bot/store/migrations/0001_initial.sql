-- Instants are microseconds since the epoch (UTC). Bodies are JSON text.

CREATE TABLE lanes (
    key        TEXT PRIMARY KEY,               -- an address key, or 'now:', 'job:', 'sub:' followed by one
    channel    TEXT NOT NULL,                  -- the address its turns answer to
    chat_id    TEXT NOT NULL,
    thread_id  TEXT,
    session_id INTEGER,                        -- the current session; NULL until the first turn
    turn_id    INTEGER                         -- the turn that occupies the lane, if any
) STRICT;
CREATE INDEX lanes_turn ON lanes (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE sessions (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    lane        TEXT NOT NULL,
    created_us  INTEGER NOT NULL,
    archived_us INTEGER
) STRICT;
CREATE INDEX sessions_lane ON sessions (lane);

CREATE TABLE inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    lane        TEXT NOT NULL,
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    thread_id   TEXT,
    message_id  TEXT NOT NULL,
    variant     TEXT NOT NULL,                 -- edit stamp or callback id, else ''
    origin      TEXT NOT NULL,
    sender_id   TEXT NOT NULL,
    chat_type   TEXT NOT NULL,
    text        TEXT NOT NULL,
    body        TEXT NOT NULL,                 -- sender_name, attachments, quote, sent_us, reply_to, meta
    received_us INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('queued', 'claimed', 'done', 'dead', 'dropped')),
    turn_id     INTEGER,
    error       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX inbox_identity ON inbox (channel, account, chat_id, message_id, variant);
CREATE INDEX inbox_waiting ON inbox (lane, id) WHERE state = 'queued';
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX inbox_dead ON inbox (id) WHERE state = 'dead';
CREATE INDEX inbox_received ON inbox (received_us);

CREATE TABLE turns (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id    INTEGER NOT NULL,
    state         TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    step          INTEGER NOT NULL DEFAULT 0,
    owner         TEXT NOT NULL,               -- instance that holds the lease
    fence         INTEGER NOT NULL,            -- grows with every claim; every write of a turn shows it
    lease_us      INTEGER NOT NULL,            -- the lease is void after this instant
    draft_id      TEXT NOT NULL DEFAULT '',
    input_tokens  INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    started_us    INTEGER NOT NULL,
    ended_us      INTEGER,
    error         TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE history (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL,
    turn_id    INTEGER NOT NULL,
    body       TEXT NOT NULL,                  -- one chat.completions message
    created_us INTEGER NOT NULL
) STRICT;
CREATE INDEX history_session ON history (session_id, id);
CREATE INDEX history_turn ON history (turn_id);

CREATE TABLE calls (
    turn_id   INTEGER NOT NULL,
    call_id   TEXT NOT NULL,
    step      INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    name      TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('pending', 'started', 'done')),
    result    TEXT,                            -- JSON: text, is_error, blocks
    PRIMARY KEY (turn_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    order_key     TEXT NOT NULL,               -- channel:chat[:thread]; rows of one key go out in id order
    rate_key      TEXT NOT NULL,               -- channel:chat
    channel       TEXT NOT NULL,
    chat_id       TEXT NOT NULL,
    thread_id     TEXT,
    kind          TEXT NOT NULL,
    text          TEXT NOT NULL,
    body          TEXT NOT NULL,               -- reply_to, buttons, attachments, answers, draft_id
    turn_id       INTEGER,
    job_id        TEXT,
    state         TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'uncertain', 'dead')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    uncertain     INTEGER NOT NULL DEFAULT 0,  -- sends whose outcome the platform never told
    lease_us      INTEGER NOT NULL DEFAULT 0,
    not_before_us INTEGER NOT NULL DEFAULT 0,
    created_us    INTEGER NOT NULL,
    first_try_us  INTEGER NOT NULL DEFAULT 0,
    ended_us      INTEGER,
    sent_ids      TEXT NOT NULL DEFAULT '[]',  -- JSON list of platform message ids, one for each part
    error         TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX outbox_waiting ON outbox (order_key, id) WHERE state IN ('queued', 'sending');
CREATE INDEX outbox_dead ON outbox (id) WHERE state = 'dead';
CREATE INDEX outbox_uncertain ON outbox (id) WHERE uncertain > 0;
CREATE INDEX outbox_job ON outbox (channel, chat_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (ended_us) WHERE ended_us IS NOT NULL;

CREATE TABLE chats (
    rate_key      TEXT PRIMARY KEY,
    not_before_us INTEGER NOT NULL DEFAULT 0,  -- rate limit: nothing goes out before
    closed        TEXT NOT NULL DEFAULT ''     -- why nothing can be sent there; '' = open
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
    id         TEXT PRIMARY KEY,
    channel    TEXT NOT NULL,
    chat_id    TEXT NOT NULL,
    thread_id  TEXT,
    chat_type  TEXT NOT NULL,
    creator_id TEXT NOT NULL,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    text       TEXT NOT NULL,
    schedule   TEXT NOT NULL,                  -- JSON of a Schedule
    state      TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done')),
    next_us    INTEGER,
    created_us INTEGER NOT NULL,
    runs       INTEGER NOT NULL DEFAULT 0,
    max_runs   INTEGER,
    catch_up   INTEGER NOT NULL,
    last_state TEXT NOT NULL DEFAULT '',
    last_error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX jobs_due ON jobs (next_us) WHERE state = 'active';
CREATE INDEX jobs_chat ON jobs (channel, chat_id);

CREATE TABLE runs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id      TEXT NOT NULL,
    due_us      INTEGER NOT NULL,
    fired_us    INTEGER NOT NULL,
    state       TEXT NOT NULL,
    interrupted INTEGER NOT NULL DEFAULT 0,    -- how often a crash cut it
    error       TEXT NOT NULL DEFAULT '',
    ended_us    INTEGER,
    UNIQUE (job_id, due_us)                    -- exactly once per due time
) STRICT;

CREATE TABLE subagents (
    id          TEXT PRIMARY KEY,
    channel     TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    thread_id   TEXT,
    parent_lane TEXT NOT NULL,
    chat_type   TEXT NOT NULL,
    creator_id  TEXT NOT NULL,
    label       TEXT NOT NULL,
    task        TEXT NOT NULL,
    reply_to    TEXT NOT NULL,
    state       TEXT NOT NULL,
    started_us  INTEGER NOT NULL,
    ended_us    INTEGER
) STRICT;
CREATE INDEX subagents_running ON subagents (channel, chat_id) WHERE state = 'running';

CREATE TABLE people (
    channel  TEXT NOT NULL,
    user_id  TEXT NOT NULL,
    zone     TEXT NOT NULL,
    PRIMARY KEY (channel, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
    name       TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
