-- A small database as an early Hermes writes it: one chat that was compressed, and one more.
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    token_count INTEGER, finish_reason TEXT);
INSERT INTO schema_version VALUES (4);
INSERT INTO sessions (id, source, started_at, ended_at, end_reason, parent_session_id, title) VALUES
    ('20260514_091203_4fe1a2', 'cli', 1778749923, 1778753523, 'compression', NULL, 'Oslo in May'),
    ('20260514_101203_77ab31', 'cli', 1778753523, NULL, NULL, '20260514_091203_4fe1a2', 'Oslo in May'),
    ('20260515_080000_c0ffee', 'cli', 1778832000, NULL, NULL, NULL, 'Bread');
INSERT INTO messages (session_id, role, content, timestamp) VALUES
    ('20260514_091203_4fe1a2', 'user', 'I want to see Oslo in May.', 1778749924),
    ('20260514_091203_4fe1a2', 'assistant', 'Take the ferry to the islands.', 1778749930),
    ('20260514_101203_77ab31', 'user',
     '[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.
A trip to Oslo in May; the ferry was recommended.', 1778753524),
    ('20260514_101203_77ab31', 'user', 'And in June?', 1778753600),
    ('20260514_101203_77ab31', 'assistant', 'Stay for the midsummer fires.', 1778753610),
    ('20260515_080000_c0ffee', 'user', 'How long does rye bread rise?', 1778832001),
    ('20260515_080000_c0ffee', 'assistant', 'About two hours.', 1778832009);
