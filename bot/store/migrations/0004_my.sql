-- Settings changed at run time, for the whole process, and what the model notes for a conversation.

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL                        -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE notes (
    session_id INTEGER NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    PRIMARY KEY (session_id, key)
) STRICT, WITHOUT ROWID;
