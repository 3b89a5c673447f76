-- What channels need to know again: which button of a message was pressed, which message a reaction is about, and the
-- time zone a person's profile names.

ALTER TABLE outbox ADD COLUMN pressed INTEGER;                          -- index of the button that was pressed first
CREATE INDEX outbox_chat ON outbox (chat_id, id);

ALTER TABLE people ADD COLUMN platform_zone TEXT NOT NULL DEFAULT '';   -- of the profile; zone, their own, wins
