-- Whether a compaction left its range out without a summary: its message is then a note, and `failure` says why.
ALTER TABLE compactions ADD COLUMN trimmed INTEGER NOT NULL DEFAULT 0 CHECK (trimmed = 0 OR trimmed = 1);
