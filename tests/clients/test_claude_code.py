"""Claude Code through LiteLLM, which translates its API: prompts that continue, and a tool."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from litellm_proxy import PROXY_KEY, LiteLlmProxy
from programs import program, run

QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
MODELS = {"ANTHROPIC_MODEL": "m", "ANTHROPIC_SMALL_FAST_MODEL": "m"}


class ClaudeCode(ClientTest):
    def claude(self, proxy, home, *arguments):
        # Its own start-up script is made by a script of the package, and those are not run.
        claude = program("node/node_modules/@anthropic-ai/claude-code", "cli-wrapper.cjs")
        settings = {"ANTHROPIC_BASE_URL": proxy.origin, "ANTHROPIC_AUTH_TOKEN": PROXY_KEY, **MODELS, **QUIET}
        run(["node", claude, *arguments], home, **settings)

    def three_prompts(self, settings=""):
        proxy, home = LiteLlmProxy(self.home(), self.base_url, KEY, settings), self.home()
        self.addCleanup(proxy.close)
        self.claude(proxy, home, "-p", "I want to see Oslo.")
        use = 'use Bash {"command":"echo sunny","description":"Weather"}'
        self.claude(proxy, home, "-c", "-p", use, "--allowedTools", "Bash")
        self.claude(proxy, home, "-c", "-p", "Thanks.")

    def test_prompts_that_continue_with_a_tool_are_one_conversation(self):
        self.three_prompts()
        row = self.one_conversation("user", "assistant", *TOOL_ROUND, "user", "assistant")
        self.assertIn(("tool", "sunny"), self.messages(row))
        self.assert_model_saw_all(row)

    def test_the_same_by_chat_completions(self):
        self.three_prompts("use_chat_completions_url_for_anthropic_messages: true")
        # A note about its tools is a user message of its own here.
        row = self.one_conversation("user", "user", "assistant", *TOOL_ROUND, "user", "assistant")
        self.assert_model_saw_all(row)
