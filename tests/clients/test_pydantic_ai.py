"""pydantic-ai: an agent that sends its history with every model call."""

import asyncio

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


class PydanticAi(ClientTest):
    def agent(self, model_class=OpenAIChatModel):
        provider = OpenAIProvider(base_url=self.base_url, api_key=KEY)
        return Agent(model_class("m", provider=provider), instructions="Be brief.", tools=[weather])

    def talk(self, agent, *prompts):
        async def run():
            history = []
            for prompt in prompts:
                result = await agent.run(prompt, message_history=history)
                history = result.all_messages()
            return history

        return asyncio.run(run())

    def test_tool_rounds_and_a_history_are_one_conversation(self):
        self.talk(self.agent(), 'use weather {"city":"Oslo"}', "Thanks.", 'now use weather {"city":"Bergen"}')
        row = self.one_conversation(*TOOL_ROUND, "user", "assistant", *TOOL_ROUND)
        self.assertEqual(self.messages(row)[2], ("tool", "It rains in Oslo."))
        self.assert_model_saw_all(row)

    def test_the_same_by_responses(self):
        self.talk(self.agent(OpenAIResponsesModel), 'use weather {"city":"Oslo"}', "Thanks.")
        self.assert_model_saw_all(self.one_conversation(*TOOL_ROUND, "user", "assistant"))

    def test_two_chats_that_begin_alike_stay_apart(self):
        agent = self.agent()
        self.talk(agent, "Hello!", "I am Ada.")
        self.talk(self.agent(), "Hello!", "I am Bob.")
        said = [self.user_texts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])
