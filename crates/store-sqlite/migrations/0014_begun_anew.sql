-- The turn that a row is an attempt of, by its id. Set on two kinds of rows: one that keeps the place where an attempt
-- failed, after the turn began anew at the end in a later row; and a queued one that waits under the id of a turn that
-- failed.
ALTER TABLE turns ADD COLUMN attempt_of BLOB;
CREATE INDEX turns_left_behind ON turns (attempt_of) WHERE attempt_of IS NOT NULL;
CREATE INDEX turns_left_in_conversation ON turns (conversation_pk, pk) WHERE attempt_of IS NOT NULL;
