-- Whose session its parent is while that conversation is not here: if it comes back, the two are linked again.
ALTER TABLE sessions ADD COLUMN missing_parent BLOB;
CREATE INDEX sessions_missing_parent ON sessions (missing_parent) WHERE missing_parent IS NOT NULL;
