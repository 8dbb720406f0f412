"""Codex: prompts that continue, a command that it runs, and its own compaction."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from programs import program, run

CONFIG = """
model_provider = "herma"
{settings}
[model_providers.herma]
name = "Herma"
base_url = "{base_url}"
env_key = "HERMA_API_KEY"
wire_api = "responses"
"""
MODEL = 'model = "m"'


class Codex(ClientTest):
    def setUp(self):
        super().setUp()
        self.folder = self.home()
        self.configure(MODEL)

    def configure(self, *settings):
        home = self.folder / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(CONFIG.format(settings="\n".join(settings), base_url=self.base_url))

    def codex(self, *arguments):
        # The sandbox needs rights that a container may not have. The only command here is one that a test asks for.
        codex = [program("node/node_modules/.bin", "codex"), "exec", "--skip-git-repo-check"]
        run([*codex, "--sandbox", "danger-full-access", *arguments], self.folder, HERMA_API_KEY=KEY)

    def prompts(self, row):
        """What the person wrote. Codex adds messages of its own, which begin with a tag."""
        return [words for words in self.user_texts(row) if not words.startswith("<")]

    def test_three_prompts_and_a_command_are_one_conversation(self):
        self.codex("I want to see Oslo.")
        self.codex("resume", "--last", 'use exec_command {"cmd":"echo sunny"}')
        self.codex("resume", "--last", "Thanks.")
        # The first message is the environment that Codex describes.
        row = self.one_conversation("user", "user", "assistant", *TOOL_ROUND, "user", "assistant")
        self.assertEqual(self.prompts(row), ["I want to see Oslo.", 'use exec_command {"cmd":"echo sunny"}', "Thanks."])
        self.assertIn("sunny", self.messages(row)[5][1])
        self.assert_model_saw_all(row)

    def test_a_tool_of_a_namespace_is_called(self):
        self.codex('use multi_agent_v1__close_agent {"target":"nobody"}')
        row = self.one_conversation("user", *TOOL_ROUND)
        # Codex found its tool, which found no such agent.
        self.assertIn("invalid agent id nobody", self.messages(row)[3][1])

    # Its default model has one tool, which takes a program. It is not in `tools` but in the input.
    def test_without_a_configured_model_its_custom_tool_is_called(self):
        self.configure()
        self.codex("I want to see Oslo.")
        self.codex("resume", "--last", """use functions__exec {"input":"text('sunny')"}""")
        row = self.one_conversation("user", "user", "assistant", *TOOL_ROUND)
        self.assertIn("sunny", self.messages(row)[5][1])

    def test_its_own_compaction_is_in_the_ledger_and_nothing_is_stored_twice(self):
        self.codex("I want to see Oslo.")
        self.codex("resume", "--last", "In May?")
        # The model reports 40 tokens for each answer.
        self.configure(MODEL, "model_auto_compact_token_limit = 35")
        self.codex("resume", "--last", "And in June?")
        self.configure(MODEL)
        self.codex("resume", "--last", "Thanks.")
        chat, = self.exactly(1, user_facing="true")
        self.assertEqual(self.prompts(chat), ["I want to see Oslo.", "In May?", "And in June?", "Thanks."])
        self.assertEqual([entry["made_by"] for entry in self.compactions(chat)], ["client"])
        helper, = self.exactly(1, user_facing="false")
        self.assertEqual(helper["origin_kind"], "auxiliary")
        shown = self.model.turns()[-1]
        self.assertEqual(len(set(shown)), len(shown), shown)
        self.assertFalse([words for _, words in shown if words.startswith("Answer 1")], shown)

    def test_a_compaction_after_the_first_answer_is_no_branch(self):
        self.codex("I want to see Oslo.")
        self.configure(MODEL, "model_auto_compact_token_limit = 35")
        self.codex("resume", "--last", "In May?")
        self.configure(MODEL)
        self.codex("resume", "--last", "Thanks.")
        chat, = self.exactly(1, user_facing="true")
        self.assertEqual(self.prompts(chat), ["I want to see Oslo.", "In May?", "Thanks."])

    # The request after it has no new message: Codex goes on with its turn.
    def test_a_compaction_between_a_call_and_the_answer_is_no_branch(self):
        self.configure(MODEL, "model_auto_compact_token_limit = 35")
        self.codex('use exec_command {"cmd":"echo sunny"}')
        self.configure(MODEL)
        self.codex("resume", "--last", "Thanks.")
        chat, = self.exactly(1, user_facing="true")
        self.assertEqual(self.prompts(chat), ['use exec_command {"cmd":"echo sunny"}', "Thanks."])

    def test_two_sessions_that_begin_alike_stay_apart(self):
        for name in ("Ada", "Bob"):
            self.codex("Hello!")
            self.codex("resume", "--last", f"I am {name}.")
        said = [self.prompts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
