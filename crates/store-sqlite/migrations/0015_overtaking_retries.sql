-- The number of the SDK's own retry that began the turn, or its last attempt; 0 for a first try.
ALTER TABLE turns ADD COLUMN sdk_attempt INTEGER NOT NULL DEFAULT 0;
-- Whether a request can still be recognised as a repetition of this one by its fingerprint. A delivered turn stays
-- so for a while: a retry may show by its own history that its client has not seen the answer.
ALTER TABLE turns ADD COLUMN joinable INTEGER NOT NULL DEFAULT 0 CHECK (joinable = 0 OR joinable = 1);
UPDATE turns SET joinable = 1 WHERE delivered = 0 AND coalesce(ended_at >= (unixepoch() - 60) * 1000, 1);
DROP INDEX turns_undelivered;
CREATE INDEX turns_joinable ON turns (fingerprint) WHERE joinable = 1;
