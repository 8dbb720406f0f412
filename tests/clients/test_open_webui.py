"""Open WebUI: chats with helpers, a regenerated answer and an edited question, with and without its chat id."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from open_webui import OpenWebUi


class OpenWebUiChats(ClientTest):
    def open_webui(self, **settings):
        server = OpenWebUi(self.home(), self.base_url, KEY, **settings)
        self.addCleanup(server.close)
        return server

    def assert_helpers_stay_apart(self, chats):
        """Whatever helpers asked is in auxiliary conversations, and in no chat's transcript."""
        helpers = self.rows(user_facing="false")
        self.assertTrue(helpers)
        for row in helpers:
            self.assertEqual(row["origin_kind"], "auxiliary")
            for words in self.user_texts(row):
                self.assertTrue(words.startswith("### Task:"), words)
        for row in chats:
            self.assertFalse([words for words in self.user_texts(row) if words.startswith("### Task:")])
        return helpers

    def regenerate_and_edit(self, server):
        """A chat of two turns, of which the second is regenerated, then edited, and goes on."""
        chat = server.chat("I want to see Oslo.")
        chat.say("In May?")
        chat.regenerate()
        chat.edit("In winter?")
        chat.say("Is there snow?")

    def assert_one_chat_and_two_branches(self):
        rows = self.rows(user_facing="true")
        self.assertEqual([self.user_texts(row) for row in rows], [
            ["I want to see Oslo.", "In May?"],
            ["I want to see Oslo.", "In May?"],
            ["I want to see Oslo.", "In winter?", "Is there snow?"],
        ])
        chat, *branches = rows
        for branch in branches:
            self.assertEqual(branch["provenance"]["parent_relation"], "branch")
        first, second = (self.messages(row)[-1] for row in rows[:2])
        self.assertNotEqual(first, second)
        return rows

    def test_a_chat_with_a_regeneration_and_an_edit_is_one_conversation_and_two_branches(self):
        self.regenerate_and_edit(self.open_webui())
        self.assert_helpers_stay_apart(self.assert_one_chat_and_two_branches())

    def test_with_its_chat_id_the_helpers_are_linked_to_the_chat(self):
        self.regenerate_and_edit(self.open_webui(ENABLE_FORWARD_USER_INFO_HEADERS="true"))
        rows = self.assert_one_chat_and_two_branches()
        helpers = self.assert_helpers_stay_apart(rows)
        ours = {row["id"] for row in rows}
        self.assertEqual([row for row in helpers if row.get("parent_session_id") not in ours], [])

    def test_with_its_chat_id_an_edited_opening_is_a_branch(self):
        chat = self.open_webui(ENABLE_FORWARD_USER_INFO_HEADERS="true").chat("I want to see Oslo.")
        chat.edit("I want to see Bergen.")
        chat.say("In May?")
        chat, branch = self.exactly(2, user_facing="true")
        self.assertEqual(self.user_texts(chat), ["I want to see Oslo."])
        self.assertEqual(self.user_texts(branch), ["I want to see Bergen.", "In May?"])
        self.assertEqual(branch["provenance"]["parent_relation"], "branch")

    def test_two_chats_that_begin_alike_stay_apart(self):
        server = self.open_webui()
        ada, bob = server.chat("Hello!"), server.chat("Hello!")
        ada.say("I am Ada.")
        bob.say("I am Bob.")
        said = [self.user_texts(row) for row in self.rows(user_facing="true")]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])

    def test_a_persons_id_can_be_the_session_key(self):
        renamed = {"FORWARD_USER_INFO_HEADER_USER_ID": "X-Hermes-Session-Key"}
        server = self.open_webui(ENABLE_FORWARD_USER_INFO_HEADERS="true", **renamed)
        server.chat("Hello!").say("I am Ada.")
        server.second_person().chat("Hello!").say("I am Bob.")
        ada, bob = self.exactly(2, user_facing="true")
        said = [self.user_texts(row) for row in (ada, bob)]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
        self.assertTrue(ada["session_key"])
        self.assertNotEqual(ada["session_key"], bob["session_key"])

    def test_rounds_of_its_own_tools_are_one_conversation(self):
        server = self.open_webui()
        server.chat("use get_current_timestamp {}").say("Thanks.")
        chat, = self.exactly(1, user_facing="true")
        self.assertEqual([role for role, _ in self.messages(chat)], [*TOOL_ROUND, "user", "assistant"])
