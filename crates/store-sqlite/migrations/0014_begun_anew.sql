-- Set on a row that keeps a place where an attempt of a turn failed: the id of that turn, which began anew at the end,
-- in a later row.
ALTER TABLE turns ADD COLUMN attempt_of BLOB;
CREATE INDEX turns_left_behind ON turns (attempt_of) WHERE attempt_of IS NOT NULL;
CREATE INDEX turns_left_in_conversation ON turns (conversation_pk, pk) WHERE attempt_of IS NOT NULL;
