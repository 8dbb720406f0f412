"""Compactions, through the official Python SDK, which does not show them: what they changed is told all the same."""

import unittest

from editor import LONG_TEXT, SMALL_WINDOW, EditorTest, kinds, provenance, words


class Compactions(EditorTest):
    async def test_a_split_is_told_once_and_is_the_same_in_lists_and_after_a_load(self):
        async with self.connect(SMALL_WINDOW) as editor:
            made = await editor.new()
            before = provenance(made)
            updates = await editor.until_compacted(made.session_id)
            moved = self.told_once(updates)
            self.assertEqual(kinds(updates)[:2], ["session_info_update", "usage_update"])
            self.assertNotIn("title", updates[0])
            self.assertEqual(moved["acpSessionId"], made.session_id)
            self.assertEqual(moved["previousHermesSessionId"], before["currentHermesSessionId"])
            self.assertEqual(moved["rootHermesSessionId"], before["currentHermesSessionId"])
            self.assertNotEqual(moved["currentHermesSessionId"], before["currentHermesSessionId"])
            self.assertEqual((moved["sessionKind"], moved["originKind"]), ("continuation", "main"))
            self.assertEqual((moved["compactionMode"], moved["reason"]), ("split", "compression"))
            self.assertEqual((moved["compressionDepth"], moved["compactionCount"]), (1, 1))
            self.assertEqual([provenance(row) for row in (await editor.agent.list_sessions()).sessions], [moved])
            self.assertEqual(provenance(await editor.load(made.session_id)), moved)
        async with self.connect(SMALL_WINDOW) as editor:
            self.assertEqual([provenance(row) for row in (await editor.agent.list_sessions()).sessions], [moved])
            self.assertEqual(provenance(await editor.load(made.session_id)), moved)
            # The whole conversation is there, also what was summarised.
            self.assertTrue(words(editor.editor.of(made.session_id), "user_message_chunk").startswith("turn 1:"))
            older = await editor.load(before["currentHermesSessionId"])
            self.assertEqual(provenance(older), {**moved, "acpSessionId": before["currentHermesSessionId"]})
            _, updates = await editor.prompt(made.session_id, "a short one")
            self.assertEqual([update for update in updates if "_meta" in update], [])

    async def test_a_compaction_in_place_moves_nothing(self):
        self.configure('[compaction]\nmode = "in_place"\n')
        async with self.connect(SMALL_WINDOW) as editor:
            made = await editor.new()
            facts = self.told_once(await editor.until_compacted(made.session_id))
            changed = {"compactionMode": "in_place", "compactionCount": 1}
            self.assertEqual(facts, {**provenance(made), **changed})
        async with self.connect(SMALL_WINDOW) as editor:
            self.assertEqual([provenance(row) for row in (await editor.agent.list_sessions()).sessions], [facts])

    async def test_a_kill_after_a_split_loses_neither_the_split_nor_the_session(self):
        async with self.connect(SMALL_WINDOW) as editor:
            made = await editor.new()
            moved = self.told_once(await editor.until_compacted(made.session_id))
            editor.kill()
        async with self.connect(SMALL_WINDOW) as editor:
            self.assertEqual([provenance(row) for row in (await editor.agent.list_sessions()).sessions], [moved])
            resumed = await editor.agent.resume_session(cwd=editor.cwd, session_id=made.session_id)
            self.assertEqual(provenance(resumed), moved)
            answer, updates = await editor.prompt(made.session_id, "and now?")
            self.assertEqual((answer.stop_reason, words(updates)[:6]), ("end_turn", "Answer"))
            shown = self.model.shown()[-1]
            self.assertNotIn("turn 1:", str(shown), "the model is shown the summary in its place")

    async def test_a_kill_between_a_split_and_its_answer_keeps_the_new_head(self):
        async with self.connect(SMALL_WINDOW) as editor:
            made = await editor.new()
            for number in range(1, 20):
                asked = editor.begin(made.session_id, f"turn {number}: [hold] {LONG_TEXT}")
                await self.model_has(f"turn {number}:")
                told = [update for update in editor.editor.of(made.session_id) if "_meta" in update]
                if told:
                    break
                self.model.release()
                await asked
            moved = provenance(told[0])
            editor.kill()
            with self.assertRaises(ConnectionError):
                await asked
        self.model.release()
        async with self.connect(SMALL_WINDOW) as editor:
            self.assertEqual([provenance(row) for row in (await editor.agent.list_sessions()).sessions], [moved])
            answer, updates = await editor.prompt(made.session_id, "and now?")
            self.assertEqual((answer.stop_reason, words(updates)[:6]), ("end_turn", "Answer"))

    def told_once(self, updates):
        """The provenance that updates tell, which is one."""
        told = [update for update in updates if "_meta" in update]
        self.assertEqual(kinds(told), ["session_info_update"])
        return provenance(told[0])


if __name__ == "__main__":
    unittest.main()
