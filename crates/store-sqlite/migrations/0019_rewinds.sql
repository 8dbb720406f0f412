-- The revision of a conversation, which clients see as its ETag: the fence of the last turn that ended, and how often
-- anything but a turn changed it.
ALTER TABLE conversations ADD COLUMN last_fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;

-- What rewinds took out of the model's view, oldest first: a JSON array of {"after", "through"} places. NULL if nothing.
ALTER TABLE conversations ADD COLUMN rewinds TEXT;
