-- The words of what was said, for searching. A chat's rows are read into it when the chat searches, so that a turn
-- pays nothing for it and rows from before this migration need no filling. No text is kept twice (content = '').
CREATE VIRTUAL TABLE history_words USING fts5 (
    session,                                   -- 's' and the session's id: one word to search within a chat
    words,                                     -- the text, with spaces around letters of scripts that have none
    content = '',
    tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE history_read (
    session_id INTEGER PRIMARY KEY,
    history_id INTEGER NOT NULL                -- rows of the session up to this one are in history_words
) STRICT;
