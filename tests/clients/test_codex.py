"""Codex: prompts that continue, a command that it runs, and its own compaction."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from programs import program, run

CONFIG = """
model = "m"
model_provider = "herma"
{settings}
[model_providers.herma]
name = "Herma"
base_url = "{base_url}"
env_key = "HERMA_API_KEY"
wire_api = "responses"
"""


class Codex(ClientTest):
    def setUp(self):
        super().setUp()
        self.folder = self.home()
        self.configure("")

    def configure(self, settings):
        home = self.folder / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(CONFIG.format(settings=settings, base_url=self.base_url))

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

    def test_its_own_compaction_is_in_the_ledger_and_nothing_is_stored_twice(self):
        self.codex("I want to see Oslo.")
        self.codex("resume", "--last", "In May?")
        # The model reports 40 tokens for each answer.
        self.configure("model_auto_compact_token_limit = 35")
        self.codex("resume", "--last", "And in June?")
        self.configure("")
        self.codex("resume", "--last", "Thanks.")
        chat, = self.exactly(1, user_facing="true")
        self.assertEqual(self.prompts(chat), ["I want to see Oslo.", "In May?", "And in June?", "Thanks."])
        self.assertEqual([entry["made_by"] for entry in self.compactions(chat)], ["client"])
        helper, = self.exactly(1, user_facing="false")
        self.assertEqual(helper["origin_kind"], "auxiliary")
        shown = self.model.turns()[-1]
        self.assertEqual(len(set(shown)), len(shown), shown)
        self.assertFalse([words for _, words in shown if words.startswith("Answer 1")], shown)

    def test_two_sessions_that_begin_alike_stay_apart(self):
        for name in ("Ada", "Bob"):
            self.codex("Hello!")
            self.codex("resume", "--last", f"I am {name}.")
        said = [self.prompts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
