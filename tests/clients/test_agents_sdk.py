"""The OpenAI Agents SDK: whole input, its conversation session, and both ways to name what is continued."""

import asyncio

from agents import Agent, OpenAIConversationsSession, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


class AgentsSdk(ClientTest):
    def run_agent(self, scenario):
        """Runs `scenario(agent, client)` in one event loop."""

        async def run():
            async with AsyncOpenAI(base_url=self.base_url, api_key=KEY, max_retries=0) as client:
                model = OpenAIResponsesModel("m", client)
                agent = Agent(name="guide", instructions="Be brief.", tools=[weather], model=model)
                return await scenario(agent, client)

        return asyncio.run(run())

    def test_whole_input_with_a_tool_is_one_conversation(self):
        async def scenario(agent, _):
            history = []
            for prompt in ('use weather {"city":"Oslo"}', "Thanks.", 'now use weather {"city":"Bergen"}'):
                history.append({"role": "user", "content": prompt})
                history = (await Runner.run(agent, history)).to_input_list()

        self.run_agent(scenario)
        self.assert_model_saw_all(self.one_conversation(*TOOL_ROUND, "user", "assistant", *TOOL_ROUND))

    def test_streamed_runs_are_one_conversation(self):
        async def scenario(agent, _):
            history = []
            for prompt in ('use weather {"city":"Oslo"}', "Thanks."):
                history.append({"role": "user", "content": prompt})
                result = Runner.run_streamed(agent, history)
                async for _ in result.stream_events():
                    pass
                history = result.to_input_list()

        self.run_agent(scenario)
        self.assert_model_saw_all(self.one_conversation(*TOOL_ROUND, "user", "assistant"))

    # It posts each message to the conversation, and then asks without naming it.
    def test_a_conversations_session_is_one_conversation(self):
        async def scenario(agent, client):
            session = OpenAIConversationsSession(openai_client=client)
            for prompt in ("I want to see Oslo.", 'use weather {"city":"Oslo"}', "Thanks."):
                await Runner.run(agent, prompt, session=session)
            return await session.get_items()

        items = self.run_agent(scenario)
        row = self.one_conversation("user", "assistant", *TOOL_ROUND, "user", "assistant")
        self.assert_model_saw_all(row)
        self.assertEqual(len(items), len(self.messages(row)))

    def test_two_conversations_sessions_that_begin_alike_stay_apart(self):
        async def scenario(agent, client):
            ada, bob = (OpenAIConversationsSession(openai_client=client) for _ in range(2))
            for prompts in (("Hello!", "Hello!"), ("I am Ada.", "I am Bob.")):
                for session, prompt in zip((ada, bob), prompts):
                    await Runner.run(agent, prompt, session=session)

        self.run_agent(scenario)
        said = [self.user_texts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])

    def test_previous_response_id_is_one_conversation(self):
        async def scenario(agent, _):
            last = None
            for prompt in ("I want to see Oslo.", 'use weather {"city":"Oslo"}', "Thanks."):
                result = await Runner.run(agent, prompt, previous_response_id=last, auto_previous_response_id=True)
                last = result.last_response_id

        self.run_agent(scenario)
        self.assert_model_saw_all(self.one_conversation("user", "assistant", *TOOL_ROUND, "user", "assistant"))

    def test_conversation_id_is_one_conversation(self):
        async def scenario(agent, client):
            conversation = await client.conversations.create()
            for prompt in ("I want to see Oslo.", 'use weather {"city":"Oslo"}', "Thanks."):
                await Runner.run(agent, prompt, conversation_id=conversation.id)

        self.run_agent(scenario)
        self.assert_model_saw_all(self.one_conversation("user", "assistant", *TOOL_ROUND, "user", "assistant"))
