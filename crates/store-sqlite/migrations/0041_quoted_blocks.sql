-- What a block of recalled text quotes may change before its turn ends, or before a later turn shows it again. So a
-- block has the value of `memory_state.changes` when its turn began (0: not known), and what it quotes has the value
-- after its last change. If that is higher, the block is neither stored nor shown.
ALTER TABLE recalls ADD COLUMN as_of INTEGER NOT NULL DEFAULT 0;
-- The value after the text of the fact was changed. 0 if that was never, or before this file.
ALTER TABLE memories ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
-- The value after a conversation was erased last that an outside provider has drawn conclusions from. It counts for all
-- keys, because a conclusion does not name its conversations.
ALTER TABLE memory_state ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;
