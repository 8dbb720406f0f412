"""Sessions, through the official Python SDK: made, listed, loaded, forked, and not found."""

import json
import unittest

import acp
from editor import EditorTest, kinds, provenance, words
from record import messages, records


class Sessions(EditorTest):
    async def test_a_conversation_that_is_not_compacted_is_told_no_provenance(self):
        async with self.connect(window=100_000) as editor:
            made = await editor.new()
            first, updates = await editor.prompt(made.session_id, "one")
            second, later = await editor.prompt(made.session_id, "two")
            self.assertEqual((first.stop_reason, second.stop_reason), ("end_turn", "end_turn"))
            told = editor.editor.of(made.session_id)
            self.assertEqual([update for update in told if "_meta" in update], [])
            self.assertNotIn("compaction_update", kinds(told))
            self.assertIn("Answer 1 to “one”.", words(updates))
            titles = [update["title"] for update in updates if update["sessionUpdate"] == "session_info_update"]
            self.assertEqual(titles, ["one"])
            # Usage is told once with each answer, and has nothing but its own fields.
            usage = [update for update in updates + later if update["sessionUpdate"] == "usage_update"]
            self.assertEqual([set(update) for update in usage], [{"sessionUpdate", "used", "size"}] * 2)
            self.assertEqual([update["size"] for update in usage], [100_000] * 2)
            self.assertLess(usage[0]["used"], usage[1]["used"])
            facts = provenance(made)
            listed = (await editor.agent.list_sessions()).sessions
            self.assertEqual([provenance(row) for row in listed], [facts])
            self.assertEqual(facts["creatorKind"], "acp")
            self.assertEqual(facts["compactionCount"], 0)
            for name in ("previousHermesSessionId", "compactionMode", "parentHermesSessionId", "reason"):
                self.assertNotIn(name, facts)

    async def test_a_session_is_listed_and_loaded_by_another_agent_as_it_was(self):
        async with self.connect() as editor:
            made = await editor.new()
            _, live = await editor.prompt(made.session_id, "one [think]")
            await editor.prompt(made.session_id, "two")
        async with self.connect() as editor:
            rows = (await editor.agent.list_sessions(cwd=editor.cwd)).sessions
            self.assertEqual([row.session_id for row in rows], [made.session_id])
            self.assertEqual((rows[0].cwd, rows[0].title), (editor.cwd, "one [think]"))
            self.assertEqual((await editor.agent.list_sessions(cwd="/nowhere")).sessions, [])
            loaded = await editor.load(made.session_id)
            self.assertEqual(provenance(loaded), provenance(made))
            replayed = editor.editor.of(made.session_id)
            self.assertEqual(words(replayed, "user_message_chunk"), "one [think]two")
            self.assertEqual(words(replayed, "agent_thought_chunk"), words(live, "agent_thought_chunk"))
            ids = {update.get("messageId") for update in live} - {None}
            self.assertLessEqual(ids, {update.get("messageId") for update in replayed})

    async def test_resume_answers_without_a_replay(self):
        async with self.connect() as editor:
            made = await editor.new()
            await editor.prompt(made.session_id, "one")
        async with self.connect() as editor:
            resumed = await editor.agent.resume_session(cwd=editor.cwd, session_id=made.session_id)
            self.assertEqual(provenance(resumed), provenance(made))
            answer, updates = await editor.prompt(made.session_id, "two")
            self.assertEqual(answer.stop_reason, "end_turn")
            self.assertEqual(words(editor.editor.of(made.session_id)), words(updates))
        self.assertEqual([message["content"] for message in self.model.shown()[-1]][0::2], ["one", "two"])

    async def test_a_fork_is_a_branch_and_its_source_stays(self):
        async with self.connect() as editor:
            made = await editor.new()
            await editor.prompt(made.session_id, "one")
            fork = await editor.agent.fork_session(cwd=editor.cwd, session_id=made.session_id)
            facts = provenance(fork)
            self.assertEqual((facts["sessionKind"], facts["parentRelation"]), ("branch", "branch"))
            self.assertEqual(facts["parentHermesSessionId"], provenance(made)["currentHermesSessionId"])
            self.assertTrue(facts["isUserFacing"])
            await editor.prompt(fork.session_id, "two in the branch")
            await editor.prompt(made.session_id, "two in the source")
            self.assertNotIn("in the branch", json.dumps(self.model.shown()[-1]))
            self.assertEqual(provenance(await editor.load(made.session_id)), provenance(made))
            listed = {row.session_id: provenance(row) for row in (await editor.agent.list_sessions()).sessions}
            self.assertEqual(listed, {made.session_id: provenance(made), fork.session_id: facts})

    async def test_an_unknown_session_is_named_in_the_error(self):
        async with self.connect() as editor:
            for name in ("nobody", "conv_00000000000000000000000000000000"):
                setup = {"cwd": editor.cwd, "session_id": name}
                for call in (
                    editor.agent.load_session(**setup),
                    editor.agent.resume_session(**setup),
                    editor.agent.fork_session(**setup),
                    editor.agent.prompt(session_id=name, prompt=[acp.text_block("x")]),
                    editor.agent.set_session_mode(session_id=name, mode_id="auto"),
                    editor.agent.close_session(session_id=name),
                ):
                    error = await self.refused(call)
                    self.assertEqual((error.code, error.data["sessionId"]), (-32002, name))

    async def test_wrong_requests_are_refused_and_the_agent_goes_on(self):
        async with self.connect() as editor:
            for call in (
                editor.agent.list_sessions(cursor="hunter22"),
                editor.agent.list_sessions(cwd="hunter22"),
                editor.agent.new_session(cwd="hunter22"),
            ):
                error = await self.refused(call)
                self.assertEqual(error.code, -32602)
                self.assertNotIn("hunter22", f"{error} {error.data}")
            editor.write("{no json hunter22")
            editor.write('["hunter22"]')
            made = await editor.new()
            self.assertEqual((await editor.prompt(made.session_id, "one"))[0].stop_reason, "end_turn")
        said = messages(records(self.records)[-1], "agent")
        refusals = [message["error"] for message in said if message.get("id", 0) is None]
        self.assertEqual([error["code"] for error in refusals], [-32700, -32600])
        self.assertNotIn("hunter22", json.dumps(said))

    async def refused(self, call):
        with self.assertRaises(acp.RequestError) as caught:
            await call
        return caught.exception


if __name__ == "__main__":
    unittest.main()
