-- Whether a turn's id was given out before it began: then it is ended, never forgotten.
ALTER TABLE turns ADD COLUMN promised INTEGER NOT NULL DEFAULT 0 CHECK (promised IN (0, 1));
-- In what pieces its answer was shown, and, where there is none, what else was shown than text.
ALTER TABLE turns ADD COLUMN record TEXT;
-- Whether somebody else ended it, so that more may have been shown than is known.
ALTER TABLE turns ADD COLUMN cut_off INTEGER NOT NULL DEFAULT 0 CHECK (cut_off IN (0, 1));
-- In what way it was asked to stop.
ALTER TABLE turns ADD COLUMN stop_kind TEXT CHECK (stop_kind IN ('interrupt', 'cancel'));
ALTER TABLE turn_journal ADD COLUMN record TEXT NOT NULL DEFAULT '';
