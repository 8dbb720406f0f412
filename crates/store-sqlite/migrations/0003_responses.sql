-- What a turn that is a response repeats of its request.
ALTER TABLE turns ADD COLUMN echo TEXT;
-- Whether it can be fetched as a response.
ALTER TABLE turns ADD COLUMN kept INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1));
