"""LangChain and LangGraph: the whole history every time, by chat completions and by responses."""

from conversations import TOOL_ROUND, ClientTest
from gateway import KEY
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import HumanMessage, trim_messages
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


class LangChain(ClientTest):
    def chat_model(self, **settings):
        return ChatOpenAI(model="m", base_url=self.base_url, api_key=KEY, max_retries=0, **settings)

    def talk(self, model, *prompts):
        history = []
        for prompt in prompts:
            history.append(HumanMessage(prompt))
            history.append(model.invoke(history))
        return history

    def test_a_chat_of_three_turns_is_one_conversation(self):
        self.talk(self.chat_model(), "I want to see Oslo.", "In May?", "And in June?")
        row = self.one_conversation(*["user", "assistant"] * 3)
        self.assertEqual(self.user_texts(row), ["I want to see Oslo.", "In May?", "And in June?"])
        self.assert_model_saw_all(row)

    def test_a_streamed_chat_is_one_conversation(self):
        model, history = self.chat_model(), []
        for prompt in ("I want to see Oslo.", "In May?"):
            history.append(HumanMessage(prompt))
            chunks = list(model.stream(history))
            history.append(sum(chunks[1:], chunks[0]))
        self.one_conversation(*["user", "assistant"] * 2)

    def test_a_chat_by_responses_is_one_conversation(self):
        self.talk(self.chat_model(use_responses_api=True), "I want to see Oslo.", "In May?", "And in June?")
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))

    def test_a_chat_by_previous_response_id_is_one_conversation(self):
        model = self.chat_model(use_responses_api=True, use_previous_response_id=True)
        self.talk(model, "I want to see Oslo.", "In May?", "And in June?")
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))

    def test_an_edited_message_is_a_branch(self):
        model = self.chat_model()
        history = self.talk(model, "I want to see Oslo.", "In May?")
        edited = [*history[:2], HumanMessage("In winter?")]
        edited.append(model.invoke(edited))
        model.invoke([*edited, HumanMessage("Is there snow?")])
        chat, branch = self.exactly(2)
        self.assertEqual(self.user_texts(chat), ["I want to see Oslo.", "In May?"])
        self.assertEqual(self.user_texts(branch), ["I want to see Oslo.", "In winter?", "Is there snow?"])
        self.assertEqual(branch["provenance"]["parent_relation"], "branch")

    def test_a_history_that_is_cut_at_its_beginning_is_one_conversation(self):
        model, history = self.chat_model(), []
        for prompt in ("I want to see Oslo.", "In May?", "And in June?", "And in July?"):
            history.append(HumanMessage(prompt))
            cut = trim_messages(history, strategy="last", max_tokens=3, token_counter=len, start_on="human")
            history.append(model.invoke(cut))
        row = self.one_conversation(*["user", "assistant"] * 4)
        self.assertEqual({entry["made_by"] for entry in self.compactions(row)}, {"client"})
        # Whatever else the model sees, it is not what the client has cut off.
        self.assertFalse([words for _, words in self.model.turns()[-1] if words in ("I want to see Oslo.", "In May?")])

    def test_two_chats_that_begin_alike_stay_apart(self):
        model = self.chat_model()
        first = self.talk(model, "Hello!")
        second = self.talk(model, "Hello!")
        model.invoke([*first, HumanMessage("I am Ada.")])
        model.invoke([*second, HumanMessage("I am Bob.")])
        said = [self.user_texts(row) for row in self.rows()]
        self.assertEqual(said, [["Hello!", "I am Ada."], ["Hello!", "I am Bob."]])


class LangGraph(ClientTest):
    def test_a_history_that_a_middleware_summarises_is_one_conversation(self):
        settings = {"model": "m", "base_url": self.base_url, "api_key": KEY, "max_retries": 0}
        model = ChatOpenAI(**settings)
        helper = ChatOpenAI(**settings, default_headers={"X-Hermes-Session-Kind": "auxiliary"})
        summaries = SummarizationMiddleware(helper, trigger=("messages", 5), keep=("messages", 3))
        agent = create_agent(model, [], middleware=[summaries], checkpointer=InMemorySaver())
        prompts = ["I want to see Oslo.", "In May?", "And in June?", "And in July?"]
        for prompt in prompts:
            agent.invoke({"messages": [HumanMessage(prompt)]}, {"configurable": {"thread_id": "ada"}})
        row, = self.exactly(1, user_facing="true")
        self.assertEqual(self.user_texts(row), prompts)
        self.assertEqual({entry["made_by"] for entry in self.compactions(row)}, {"client"})
        self.assertEqual({row["origin_kind"] for row in self.rows(user_facing="false")}, {"auxiliary"})

    def test_an_agent_with_tool_rounds_is_one_conversation_for_each_thread(self):
        model = ChatOpenAI(model="m", base_url=self.base_url, api_key=KEY, max_retries=0)
        agent = create_agent(model, [weather], system_prompt="Be brief.", checkpointer=InMemorySaver())
        prompts = ['use weather {"city":"Oslo"}', 'and use weather {"city":"Bergen"}', "Thanks."]
        for prompt in prompts:
            for thread in ("ada", "bob"):
                config = {"configurable": {"thread_id": thread}}
                agent.invoke({"messages": [HumanMessage(prompt)]}, config)
        for row in self.exactly(2):
            said = self.messages(row)
            self.assertEqual([role for role, _ in said], [*TOOL_ROUND * 2, "user", "assistant"], said)
            self.assertIn(("tool", "It rains in Bergen."), said)
