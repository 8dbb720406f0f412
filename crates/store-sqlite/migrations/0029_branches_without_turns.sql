-- Branches that have no turn of their own yet, by the history at their end. A request that carries that history
-- continues there.
CREATE INDEX conversations_without_turns ON conversations (history) WHERE origin_kind = 'branch' AND turn_count = 0;
