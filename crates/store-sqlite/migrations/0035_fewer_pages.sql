-- A turn's number no longer costs a page. It is the highest of all turns and admissions, plus one. `turn_numbers` has
-- the highest number of deleted turns, so that none is given twice.
CREATE TABLE turn_numbers (
    pk   INTEGER PRIMARY KEY CHECK (pk = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO turn_numbers SELECT 1, seq FROM sqlite_sequence WHERE name = 'turns';
CREATE TRIGGER turn_numbers_outlive_turns AFTER DELETE ON turns
WHEN OLD.pk > coalesce((SELECT max(pk) FROM turns), 0) BEGIN
    UPDATE turn_numbers SET last = OLD.pk WHERE last < OLD.pk;
END;

-- The column of `turns` says so. The rows are the same, so only the text changes. docs/adr/0005 says why this is safe.
CREATE TABLE schema_edits (name TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL) STRICT;
CREATE TRIGGER schema_edits_apply AFTER INSERT ON schema_edits BEGIN
    SELECT RAISE(ABORT, 'the schema of ' || NEW.name || ' is not the one that Herma made')
    WHERE (SELECT length(sql) - length(replace(sql, NEW.old, '')) FROM sqlite_schema WHERE name = NEW.name)
        IS NOT length(NEW.old);
    UPDATE sqlite_schema SET sql = replace(sql, NEW.old, NEW.new) WHERE name = NEW.name;
END;
PRAGMA writable_schema = ON;
INSERT INTO schema_edits VALUES ('turns', 'INTEGER PRIMARY KEY AUTOINCREMENT', 'INTEGER PRIMARY KEY');
PRAGMA writable_schema = RESET;
DROP TABLE schema_edits;

-- A process of an earlier release finds no number here, so its admissions fail until it is restarted.
DELETE FROM sqlite_sequence WHERE name = 'turns';

-- The commit of a turn leaves its admission behind, which saves a page. The row counts no more once its conversation
-- has reached its fence. The next admission of the conversation overwrites it, or a later write deletes it.
CREATE VIEW live_admissions AS
SELECT a.* FROM admissions a JOIN conversations c ON c.pk = a.conversation_pk WHERE a.fence > c.fence;
CREATE TRIGGER admissions_go_with_conversation AFTER DELETE ON conversations BEGIN
    DELETE FROM admissions WHERE conversation_pk = OLD.pk;
END;
