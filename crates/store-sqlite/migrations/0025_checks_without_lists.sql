-- A CHECK and the predicate of an index compare with each word, and no longer with a list. For `IN` with three or more
-- words SQLite fills a temporary table whenever a row is written. The rules are the same, so no row changes: only the
-- text of the schema does. A text that is not found exactly once fails the migration. docs/adr/0005 says why this is
-- safe.
CREATE TABLE schema_edits (name TEXT NOT NULL, old TEXT NOT NULL, new TEXT NOT NULL) STRICT;
CREATE TRIGGER schema_edits_apply AFTER INSERT ON schema_edits BEGIN
    SELECT RAISE(ABORT, 'the schema of ' || NEW.name || ' is not the one that Herma made')
    WHERE (SELECT length(sql) - length(replace(sql, NEW.old, '')) FROM sqlite_schema WHERE name = NEW.name)
        IS NOT length(NEW.old);
    UPDATE sqlite_schema SET sql = replace(sql, NEW.old, NEW.new) WHERE name = NEW.name;
END;

PRAGMA writable_schema = ON;
INSERT INTO schema_edits VALUES
('conversations', 'origin_kind IN (''main'', ''auxiliary'', ''background'', ''branch'')',
    'origin_kind = ''main'' OR origin_kind = ''auxiliary'' OR origin_kind = ''background''
                     OR origin_kind = ''branch'''),
('sessions', '(kind IN (''main'', ''auxiliary'', ''background'', ''branch'', ''continuation''))',
    '(kind = ''main'' OR kind = ''auxiliary'' OR kind = ''background'' OR kind = ''branch''
                       OR kind = ''continuation'')'),
('sessions', 'parent_relation IN (''continuation'', ''branch'', ''delegate'', ''background'', ''import'')',
    'parent_relation = ''continuation'' OR parent_relation = ''branch'' OR parent_relation = ''delegate''
                       OR parent_relation = ''background'' OR parent_relation = ''import'''),
('sessions', 'creator_kind IN
                       (''user'', ''api'', ''acp'', ''cli'', ''compression'', ''delegate_task'', '
    || '''branch'', ''schedule'', ''import'')',
    'creator_kind = ''user'' OR creator_kind = ''api'' OR creator_kind = ''acp'' OR creator_kind = ''cli''
                       OR creator_kind = ''compression'' OR creator_kind = ''delegate_task''
                       OR creator_kind = ''branch'' OR creator_kind = ''schedule'' OR creator_kind = ''import'''),
('turns', 'state IN (''queued'', ''running'', ''completed'', ''failed'', ''cancelled'', ''interrupted'')',
    'state = ''queued'' OR state = ''running'' OR state = ''completed'' OR state = ''failed''
                     OR state = ''cancelled'' OR state = ''interrupted'''),
('turns', 'resolution IN (''created'', ''head'', ''moved'', ''branched'')',
    'resolution = ''created'' OR resolution = ''head'' OR resolution = ''moved'' OR resolution = ''branched'''),
('turns_unanswered', 'state IN (''failed'', ''cancelled'', ''interrupted'')',
    'state = ''failed'' OR state = ''cancelled'' OR state = ''interrupted'''),
('messages', 'role IN (''user'', ''assistant'', ''tool'')',
    'role = ''user'' OR role = ''assistant'' OR role = ''tool'''),
('compactions', 'trigger IN (''threshold'', ''context_length'', ''manual'')',
    'trigger = ''threshold'' OR trigger = ''context_length'' OR trigger = ''manual'''),
('compactions', 'outcome IN (''applied'', ''failed'', ''undone'')',
    'outcome = ''applied'' OR outcome = ''failed'' OR outcome = ''undone''');
-- Reads the new texts. One that cannot be read fails the migration.
PRAGMA writable_schema = RESET;
-- Raises the version of the schema, so that every open connection reads it again.
DROP TABLE schema_edits;
