"""Claude Code through LiteLLM, which translates its API: prompts that continue, and a tool."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from litellm_proxy import PROXY_KEY, LiteLlmProxy
from programs import program, run

QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
MODELS = {"ANTHROPIC_MODEL": "m", "ANTHROPIC_SMALL_FAST_MODEL": "m"}


class ClaudeCode(ClientTest):
    def setUp(self):
        super().setUp()
        self.folder = self.home()
        self.proxy = LiteLlmProxy(self.home(), self.base_url, KEY)
        self.addCleanup(self.proxy.close)

    def claude(self, *arguments):
        # Its own start-up script is made by a script of the package, and those are not run.
        claude = program("node/node_modules/@anthropic-ai/claude-code", "cli-wrapper.cjs")
        settings = {"ANTHROPIC_BASE_URL": self.proxy.origin, "ANTHROPIC_AUTH_TOKEN": PROXY_KEY, **MODELS, **QUIET}
        run(["node", claude, *arguments], self.folder, **settings)

    def test_prompts_that_continue_with_a_tool_are_one_conversation(self):
        self.claude("-p", "I want to see Oslo.")
        self.claude("-c", "-p", 'use Bash {"command":"echo sunny","description":"Weather"}', "--allowedTools", "Bash")
        self.claude("-c", "-p", "Thanks.")
        # It adds a note about its tools to the first prompt.
        row = self.one_conversation("user", "user", "assistant", *TOOL_ROUND, "user", "assistant")
        self.assertIn(("tool", "sunny"), self.messages(row))
        self.assert_model_saw_all(row)
