-- Who is next, kept ready instead of searched for: the oldest unsettled message of each order key, and the oldest
-- waiting message of each lane. Triggers keep both, so that no write can forget to. And waits that a jump of the wall
-- clock cannot lengthen: instants of waits and leases are on the scale of `Clock.steady_us`.

ALTER TABLE outbox ADD COLUMN due_us INTEGER;                        -- of the oldest unsettled row of its order key:
                                                                     -- when it may be claimed, 0: at once; else NULL
ALTER TABLE outbox ADD COLUMN hold_us INTEGER NOT NULL DEFAULT 0;    -- how long the wait until not_before_us is in all
ALTER TABLE outbox ADD COLUMN tried_us INTEGER NOT NULL DEFAULT 0;   -- first_try_us on the scale of waits
ALTER TABLE chats ADD COLUMN hold_us INTEGER NOT NULL DEFAULT 0;     -- as of outbox

CREATE VIEW outbox_next AS                                           -- when a row may be claimed once it is the oldest
SELECT o.id AS id,
       CASE o.state WHEN 'queued' THEN max(o.not_before_us, coalesce(c.not_before_us, 0)) ELSE o.lease_us + 1 END AS at_us
FROM outbox o LEFT JOIN chats c ON c.rate_key = o.rate_key;

UPDATE outbox SET hold_us = 86400000000 WHERE state = 'queued' AND not_before_us > 0;  -- unknown: a day at most
UPDATE chats SET hold_us = 86400000000 WHERE not_before_us > 0;
UPDATE outbox SET tried_us = first_try_us WHERE state IN ('queued', 'sending');
UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = outbox.id)
WHERE id IN (SELECT min(id) FROM outbox WHERE state IN ('queued', 'sending') GROUP BY order_key);

CREATE INDEX outbox_due ON outbox (channel, due_us, id) WHERE due_us IS NOT NULL;
CREATE INDEX outbox_due_of_chat ON outbox (rate_key) WHERE due_us IS NOT NULL;

CREATE TRIGGER outbox_comes AFTER INSERT ON outbox WHEN NEW.state IN ('queued', 'sending') BEGIN
    UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = NEW.id)
    WHERE id = NEW.id
      AND id = (SELECT min(id) FROM outbox WHERE order_key = NEW.order_key AND state IN ('queued', 'sending'));
END;
CREATE TRIGGER outbox_changes AFTER UPDATE OF state, order_key, rate_key, not_before_us, lease_us ON outbox BEGIN
    UPDATE outbox SET due_us = NULL                                  -- the one behind it may have been the oldest so far
    WHERE due_us IS NOT NULL
      AND id IN (NEW.id, (SELECT min(id) FROM outbox WHERE order_key = NEW.order_key
                          AND state IN ('queued', 'sending') AND id > NEW.id));
    UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = outbox.id)
    WHERE id IN ((SELECT min(id) FROM outbox WHERE order_key = NEW.order_key AND state IN ('queued', 'sending')),
                 (SELECT min(id) FROM outbox WHERE order_key = OLD.order_key AND state IN ('queued', 'sending')));
END;
CREATE TRIGGER outbox_goes AFTER DELETE ON outbox WHEN OLD.state IN ('queued', 'sending') BEGIN
    UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = outbox.id)
    WHERE id = (SELECT min(id) FROM outbox WHERE order_key = OLD.order_key AND state IN ('queued', 'sending'));
END;
CREATE TRIGGER chats_come AFTER INSERT ON chats BEGIN
    UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = outbox.id)
    WHERE rate_key = NEW.rate_key AND due_us IS NOT NULL;
END;
CREATE TRIGGER chats_change AFTER UPDATE OF rate_key, not_before_us ON chats BEGIN
    UPDATE outbox SET due_us = (SELECT n.at_us FROM outbox_next n WHERE n.id = outbox.id)
    WHERE rate_key = NEW.rate_key AND due_us IS NOT NULL;
END;

ALTER TABLE lanes ADD COLUMN waiting_id INTEGER;                     -- its oldest waiting message, if any
ALTER TABLE lanes ADD COLUMN rank INTEGER NOT NULL GENERATED ALWAYS AS
    (CASE WHEN key GLOB 'now:*' THEN 0 WHEN key GLOB 'mem:*' THEN 2 ELSE 1 END) VIRTUAL; -- of commands, memory runs, others

UPDATE lanes SET waiting_id = (SELECT min(i.id) FROM inbox i WHERE i.lane = lanes.key AND i.state = 'queued');

CREATE INDEX lanes_waiting ON lanes (rank, waiting_id) WHERE turn_id IS NULL AND waiting_id IS NOT NULL;

CREATE TRIGGER inbox_comes AFTER INSERT ON inbox WHEN NEW.state = 'queued' BEGIN
    UPDATE lanes SET waiting_id = NEW.id WHERE key = NEW.lane AND waiting_id IS NULL;
END;
CREATE TRIGGER inbox_changes AFTER UPDATE OF state, lane ON inbox WHEN 'queued' IN (OLD.state, NEW.state) BEGIN
    UPDATE lanes SET waiting_id = (SELECT min(i.id) FROM inbox i WHERE i.lane = lanes.key AND i.state = 'queued')
    WHERE key IN (OLD.lane, NEW.lane);
END;
CREATE TRIGGER inbox_goes AFTER DELETE ON inbox WHEN OLD.state = 'queued' BEGIN
    UPDATE lanes SET waiting_id = (SELECT min(i.id) FROM inbox i WHERE i.lane = lanes.key AND i.state = 'queued')
    WHERE key = OLD.lane;
END;
CREATE TRIGGER lanes_come AFTER INSERT ON lanes BEGIN
    UPDATE lanes SET waiting_id = (SELECT min(i.id) FROM inbox i WHERE i.lane = NEW.key AND i.state = 'queued')
    WHERE key = NEW.key;
END;
CREATE TRIGGER lanes_move AFTER UPDATE OF key ON lanes BEGIN
    UPDATE lanes SET waiting_id = (SELECT min(i.id) FROM inbox i WHERE i.lane = NEW.key AND i.state = 'queued')
    WHERE key = NEW.key;
END;
