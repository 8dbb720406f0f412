"""Permissions, through the official Python SDK: what a tool may do, the editor's person decides."""

import unittest

from editor import EditorTest, words

ADD = 'use sums__add {"a": 20, "b": 22}'


class Permissions(EditorTest):
    def setUp(self):
        super().setUp()
        self.configure_tools()

    async def test_a_call_that_changes_something_asks_and_is_made_if_it_is_allowed(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            editor.editor.choice = "once"
            answer, updates = await editor.prompt(session, ADD)
            self.assertEqual(answer.stop_reason, "end_turn")
            [(asked_in, call, options)] = editor.editor.questions
            self.assertEqual((asked_in, call.raw_input), (session, {"a": 20, "b": 22}))
            kinds = ["allow_once", "allow_always", "allow_always", "reject_once"]
            self.assertEqual([kind for _, kind in options], kinds)
            self.assertEqual(statuses(updates)[-1], (call.tool_call_id, "completed"))
            self.assertIn("to “42”", words(updates))
            editor.editor.choice = "session"
            for _ in range(3):
                await editor.prompt(session, ADD)
            self.assertEqual(len(editor.editor.questions), 2)

    async def test_a_call_that_is_not_allowed_is_not_made(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            editor.editor.choice = "deny"
            answer, updates = await editor.prompt(session, ADD)
            self.assertEqual((answer.stop_reason, statuses(updates)[-1][1]), ("end_turn", "failed"))
            self.assertNotIn("42", words(updates))
            # In this mode the person is not asked.
            await editor.agent.set_session_mode(session_id=session, mode_id="auto")
            _, updates = await editor.prompt(session, ADD)
            self.assertEqual(statuses(updates)[-1][1], "completed")
            self.assertEqual(len(editor.editor.questions), 1)


def statuses(updates):
    """The id and the status of each update of a call."""
    return [(update["toolCallId"], update.get("status", "pending")) for update in updates if "toolCallId" in update]


if __name__ == "__main__":
    unittest.main()
