"""aider: examples in front of the history, and a newest message that loses its instructions in the next request."""

from conversations import ClientTest
from gateway import KEY
from programs import program, run

OPTIONS = ["--model", "openai/m", "--no-git", "--yes-always", "--no-fancy-input", "--no-pretty"]
# It looks for a newer version of itself and sends statistics unless it is told not to.
QUIET = ["--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-show-release-notes"]


class Aider(ClientTest):
    def aider(self, home, *prompts):
        settings = {"OPENAI_API_BASE": self.base_url, "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        said = "".join(f"{prompt}\n" for prompt in (*prompts, "/exit"))
        run([program("aider/bin", "aider"), *OPTIONS, *QUIET], home, said, **settings)

    def test_a_chat_is_one_conversation(self):
        self.aider(self.home(), "I want to see Oslo.", "In May?", "And in June?")
        # Three of the six are the examples that aider puts in front of every chat.
        row = self.one_conversation(*["user", "assistant"] * 6)
        asked = [words.split("\n")[0] for words in self.user_texts(row)[3:]]
        self.assertEqual(asked, ["I want to see Oslo.", "In May?", "And in June?"])

    def test_two_chats_that_begin_alike_stay_apart(self):
        self.aider(self.home(), "Hello!", "I am Ada.")
        self.aider(self.home(), "Hello!", "I am Bob.")
        asked = [[words.split("\n")[0] for words in self.user_texts(row)[3:]] for row in self.rows()]
        self.assertEqual(asked, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
