"""`llm`, the command line tool: prompts that continue the last one, a chat, and a tool."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from programs import program, run

MODEL = """
- model_id: herma
  model_name: m
  api_base: {base_url}
  api_key_name: herma
  supports_tools: true
"""
WEATHER = 'def weather(city: str) -> str:\n    "The weather in a city."\n    return f"It rains in {city}."\n'


class Llm(ClientTest):
    def setUp(self):
        super().setUp()
        self.folder = self.home()
        (self.folder / "extra-openai-models.yaml").write_text(MODEL.format(base_url=self.base_url))
        self.llm("keys", "set", "herma", "--value", KEY)

    def llm(self, *arguments, said=""):
        run([program("libraries/bin", "llm"), *arguments], self.folder, said, LLM_USER_PATH=str(self.folder))

    def test_prompts_that_continue_are_one_conversation(self):
        self.llm("-m", "herma", "I want to see Oslo.")
        self.llm("-c", "In May?")
        self.llm("-c", "And in June?", "--no-stream")
        row = self.one_conversation(*["user", "assistant"] * 3)
        self.assertEqual(self.user_texts(row), ["I want to see Oslo.", "In May?", "And in June?"])
        self.assert_model_saw_all(row)

    def test_a_chat_is_one_conversation(self):
        self.llm("chat", "-m", "herma", "-s", "Be brief.", said="I want to see Oslo.\nIn May?\nAnd in June?\nexit\n")
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))

    def test_tool_rounds_are_one_conversation(self):
        self.llm("-m", "herma", "--functions", WEATHER, 'use weather {"city": "Oslo"}')
        self.llm("-c", "Thanks.")
        row = self.one_conversation(*TOOL_ROUND, "user", "assistant")
        self.assert_model_saw_all(row)

    def test_two_prompts_that_begin_alike_stay_apart(self):
        for name in ("Ada", "Bob"):
            self.llm("-m", "herma", "Hello!")
            self.llm("-c", f"I am {name}.")
        said = [self.user_texts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
