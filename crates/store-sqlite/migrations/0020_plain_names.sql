-- Columns get the names that the code uses. Only the schema is rewritten, no row.

ALTER TABLE turns RENAME COLUMN promised TO visible_while_queued;
ALTER TABLE conversations RENAME COLUMN unmade TO provisional;
ALTER TABLE conversations RENAME COLUMN held_back TO auto_compaction_paused;
ALTER TABLE conversations RENAME COLUMN echoing TO title_is_excerpt;
