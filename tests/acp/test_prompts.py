"""Prompts, through the official Python SDK: cancelled, queued, failed, and ended for other reasons."""

import unittest

import acp
from editor import EditorTest, words


class Prompts(EditorTest):
    async def test_a_cancel_ends_the_running_prompt_and_those_that_wait_and_no_later_one(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            await editor.agent.cancel(session_id=session)
            asked = [editor.begin(session, text) for text in ("one [hold]", "two")]
            await self.model_has("one")
            await editor.agent.cancel(session_id=session)
            await editor.agent.cancel(session_id=session)
            self.assertEqual([(await answer).stop_reason for answer in asked], ["cancelled"] * 2)
            self.model.release()
            answer, updates = await editor.prompt(session, "three")
            self.assertEqual(answer.stop_reason, "end_turn")
            self.assertIn("to “three”", words(updates))

    async def test_a_second_prompt_waits_for_the_first(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            first, second = (editor.begin(session, text) for text in ("one [hold]", "two"))
            await self.model_has("one")
            other = (await editor.new()).session_id
            self.assertEqual((await editor.prompt(other, "meanwhile"))[0].stop_reason, "end_turn")
            self.assertFalse(first.done() or second.done())
            self.model.release()
            self.assertEqual([(await asked).stop_reason for asked in (first, second)], ["end_turn"] * 2)
            last = self.model.shown()[-1]
            self.assertEqual([message["role"] for message in last], ["user", "assistant", "user"])

    async def test_a_failed_model_call_has_its_code_and_the_session_goes_on(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            with self.assertRaises(acp.RequestError) as caught:
                await editor.prompt(session, "one [fail]")
            self.assertEqual((caught.exception.code, caught.exception.data["code"]), (-32603, "upstream_error"))
            self.assertEqual((await editor.prompt(session, "two"))[0].stop_reason, "end_turn")

    async def test_the_reason_of_the_end_is_told(self):
        async with self.connect() as editor:
            session = (await editor.new()).session_id
            for text, reason in (("[long]", "max_tokens"), ("[harmful]", "refusal"), ("fine", "end_turn")):
                self.assertEqual((await editor.prompt(session, text))[0].stop_reason, reason)

    async def test_two_editors_on_one_store_do_not_disturb_each_other(self):
        async with self.connect() as one, self.connect() as other:
            session = (await one.new()).session_id
            await one.prompt(session, "from the first")
            await other.load(session)
            first, second = one.begin(session, "mine [hold]"), other.begin(session, "and mine")
            await self.model_has("mine")
            self.model.release()
            self.assertEqual([(await asked).stop_reason for asked in (first, second)], ["end_turn"] * 2)
            self.assertEqual(len(self.model.shown()[-1]), 5, "nothing was lost")


if __name__ == "__main__":
    unittest.main()
