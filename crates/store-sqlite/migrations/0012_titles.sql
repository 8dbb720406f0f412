-- Whether somebody wants it without a title: then none is made for it.
ALTER TABLE conversations ADD COLUMN nameless INTEGER NOT NULL DEFAULT 0 CHECK (nameless IN (0, 1));
-- Whether its title is nothing but the beginning of what was said first: a search finds the message, and need not find it twice.
ALTER TABLE conversations ADD COLUMN echoing INTEGER NOT NULL DEFAULT 0 CHECK (echoing IN (0, 1));

DROP TRIGGER search_rereads_title;
CREATE TRIGGER search_rereads_title AFTER UPDATE OF title, echoing ON conversations
WHEN (NEW.title IS NOT OLD.title OR NEW.echoing <> OLD.echoing) AND NOT (OLD.title IS NULL AND NEW.echoing = 1) BEGIN
    DELETE FROM search_index WHERE rowid = -OLD.pk;
    DELETE FROM search_again WHERE key = -OLD.pk;
    INSERT INTO search_again SELECT -NEW.pk WHERE NEW.title IS NOT NULL AND NEW.echoing = 0;
END;
