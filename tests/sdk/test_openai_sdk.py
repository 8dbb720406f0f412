"""The official OpenAI SDK against the running gateway, as its users have it."""

import json
import unittest
import urllib.request

import openai
import pydantic

from gateway import KEY, Gateway, ModelServer

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def user(text):
    return {"role": "user", "content": text}


class OfflineModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway()
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()

    def chat(self, session, messages, **more):
        return self.client.chat.completions.create(
            model="offline", messages=messages, extra_headers={"X-Hermes-Session-Id": session}, **more
        )

    def test_a_conversation_goes_on_under_its_session_id(self):
        first = self.chat("sdk-chat", [user("my name is Ada")])
        second = self.chat("sdk-chat", [user("and now?")])
        self.assertIn("my name is Ada", first.choices[0].message.content)
        self.assertIn("message 2 of this conversation", second.choices[0].message.content)
        self.assertGreater(second.usage.prompt_tokens, first.usage.prompt_tokens)
        self.assertEqual(second.model_extra["session"]["session_id"], "sdk-chat")
        self.assertEqual(second.model_extra["session"]["resolution"], "head")

    def test_the_whole_history_every_time_is_the_same_conversation(self):
        history = [user("one")]
        for text in ("two", "three"):
            answer = self.chat("sdk-history", history)
            history += [answer.choices[0].message.model_dump(), user(text)]
        last = self.chat("sdk-history", history)
        self.assertIn("message 3 of this conversation", last.choices[0].message.content)

    def test_a_raw_stream_carries_text_usage_and_session(self):
        stream = self.chat("sdk-stream", [user("hello")], stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertIn("hello", text)
        self.assertGreater(chunks[-1].usage.total_tokens, 0)
        finished = [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
        self.assertEqual(finished[0].model_extra["session"]["session_id"], "sdk-stream")

    def test_the_streaming_helper_accepts_every_event(self):
        headers = {"X-Hermes-Session-Id": "sdk-helper"}
        with self.client.chat.completions.stream(model="offline", messages=[user("hello")], extra_headers=headers) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertIn("hello", final.choices[0].message.content)

    def test_headers_tell_the_effective_session(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="offline",
            messages=[user("hi")],
            extra_headers={"X-Hermes-Session-Id": "sdk-raw", "X-Hermes-Session-Key": "person:1"},
        )
        self.assertEqual(raw.headers["x-hermes-session-id"], "sdk-raw")
        self.assertEqual(raw.headers["x-hermes-session-key"], "person:1")
        self.assertTrue(raw.headers["x-hermes-conversation-id"].startswith("conv_"))
        self.assertTrue(raw.headers["x-request-id"])

    def test_a_tool_is_called_and_its_result_is_answered(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                session = f"sdk-tool-{stream}"
                call = self.tool_call(session, stream)
                self.assertEqual(call.function.name, "weather")
                self.assertIn("city", json.loads(call.function.arguments))
                result = {"role": "tool", "tool_call_id": call.id, "content": "21 degrees and sunny"}
                answer = self.chat(session, [result], tools=[WEATHER])
                self.assertIn("21 degrees and sunny", answer.choices[0].message.content)

    def tool_call(self, session, stream):
        ask = [user("please call weather for Oslo")]
        if not stream:
            answer = self.chat(session, ask, tools=[WEATHER])
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            return answer.choices[0].message.tool_calls[0]
        headers = {"X-Hermes-Session-Id": session}
        with self.client.chat.completions.stream(model="offline", messages=ask, tools=[WEATHER], extra_headers=headers) as events:
            for _ in events:
                pass
            return events.get_final_completion().choices[0].message.tool_calls[0]

    def test_errors_are_the_exceptions_the_sdk_knows(self):
        with self.assertRaises(openai.BadRequestError) as bad:
            self.chat("sdk-errors", [user("hi")], n=2)
        self.assertEqual(bad.exception.param, "n")
        with self.assertRaises(openai.NotFoundError):
            self.chat("conv_" + "0" * 32, [user("hi")])
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()
        self.chat("sdk-keyed", [user("hi")], timeout=10)

    def test_models_can_be_listed_and_read(self):
        names = [model.id for model in self.client.models.list()]
        self.assertIn("offline", names)
        self.assertEqual(self.client.models.retrieve("offline").id, "offline")


class Responses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway()
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()

    def respond(self, text, **more):
        return self.client.responses.create(model="offline", input=text, **more)

    def test_a_slug_continues_and_its_responses_can_be_fetched(self):
        first = self.respond("my name is Ada", conversation="sdk-slug", metadata={"a": "b"})
        second = self.respond("and now?", conversation="sdk-slug")
        self.assertIn("message 2 of this conversation", second.output_text)
        self.assertEqual(first.conversation.id, second.conversation.id)
        self.assertEqual(second.model_extra["session"]["resolution"], "head")
        fetched = self.client.responses.retrieve(first.id)
        self.assertEqual((fetched.output_text, fetched.metadata), (first.output_text, {"a": "b"}))
        items = [item.content[0].text for item in self.client.responses.input_items.list(first.id)]
        self.assertEqual(items, ["my name is Ada"])
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_a_chain_continues_and_an_earlier_link_branches(self):
        one = self.respond("one")
        two = self.respond("two", previous_response_id=one.id)
        self.assertIn("message 2 of this conversation", two.output_text)
        branch = self.respond("other", previous_response_id=one.id)
        self.assertIn("message 2 of this conversation", branch.output_text)
        self.assertEqual(branch.model_extra["session"]["resolution"], "branched")
        with self.assertRaises(openai.NotFoundError) as gone:
            self.respond("x", previous_response_id="resp_" + "0" * 32)
        self.assertEqual((gone.exception.code, gone.exception.param), ("previous_response_not_found", "previous_response_id"))

    def test_the_streaming_helper_and_raw_streams_accept_every_event(self):
        with self.client.responses.stream(model="offline", input="hello", conversation="sdk-response-stream") as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
        self.assertIn("hello", final.output_text)
        raw = list(self.respond("again", conversation="sdk-response-stream", stream=True))
        self.assertEqual([event.sequence_number for event in raw], list(range(len(raw))))
        self.assertEqual(raw[-1].response.model_extra["session"]["resolution"], "head")

    def test_tools_and_formats(self):
        tool = {"type": "function", "name": "weather", "parameters": WEATHER["function"]["parameters"]}
        asked = self.respond("please call weather for Oslo", tools=[tool])
        call = asked.output[0]
        self.assertEqual((call.type, call.name), ("function_call", "weather"))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
        answer = self.respond([result], previous_response_id=asked.id, tools=[tool])
        self.assertIn("21 degrees", answer.output_text)

        class Count(pydantic.BaseModel):
            number: int

        parsed = self.client.responses.parse(model="offline", input="count", text_format=Count)
        self.assertIsInstance(parsed.output_parsed.number, int)


class LongConversation(unittest.TestCase):
    """A conversation that outgrows its model: the SDK's users hold the first id and read the new one."""

    def setUp(self):
        gateway = Gateway("--context-window", "2000")
        self.addCleanup(gateway.close)
        self.client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)

    def ask(self, session, text, **more):
        headers = {"X-Hermes-Session-Id": session}
        return {"model": "offline", "messages": [user(text)], "extra_headers": headers, **more}

    def talk_until_rotated(self, take_a_turn):
        for number in range(40):
            session = take_a_turn(f"message {number}: " + "we went on and saw one more thing. " * 12)
            if session["rotated"]:
                return session
        self.fail("the conversation was never compacted")

    def test_answers_tell_the_new_head_and_the_first_id_keeps_working(self):
        def turn(text):
            raw = self.client.chat.completions.with_raw_response.create(**self.ask("first", text))
            session = raw.parse().model_extra["session"]
            self.assertEqual(raw.headers["x-hermes-session-id"], session["session_id"])
            return session

        head = self.talk_until_rotated(turn)
        self.assertNotEqual(head["session_id"], "first")
        self.assertEqual(head["provenance"]["previous_session_id"], "first")
        again = self.client.chat.completions.create(**self.ask("first", "and now?")).model_extra["session"]
        self.assertEqual((again["session_id"], again["resolution"]), (head["session_id"], "moved"))
        there = self.client.chat.completions.create(**self.ask(head["session_id"], "and now?")).model_extra["session"]
        self.assertEqual((there["session_id"], there["resolution"]), (head["session_id"], "head"))

    def test_streams_tell_the_new_head_in_their_last_chunk(self):
        def raw_stream(text):
            chunks = list(self.client.chat.completions.create(**self.ask("raw", text), stream=True))
            return [chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason][0].model_extra["session"]

        def helper(text):
            with self.client.chat.completions.stream(**self.ask("helper", text)) as stream:
                events = [event.chunk for event in stream if event.type == "chunk"]
                self.assertTrue(stream.get_final_completion().choices[0].message.content)
            return [chunk for chunk in events if chunk.choices and chunk.choices[0].finish_reason][0].model_extra["session"]

        for name, turn in (("raw", raw_stream), ("helper", helper)):
            with self.subTest(name):
                head = self.talk_until_rotated(turn)
                self.assertNotEqual(head["session_id"], name)
                self.assertEqual(head["provenance"]["kind"], "continuation")


class FailingModelServer(unittest.TestCase):
    def test_the_sdks_own_retries_end_with_one_turn(self):
        upstream = ModelServer(failures=[400, 401])
        gateway = Gateway("--upstream", upstream.base_url, "--model", "m")
        self.addCleanup(upstream.close)
        self.addCleanup(gateway.close)
        client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, max_retries=3)
        self.addCleanup(client.close)
        headers = {"X-Hermes-Session-Id": "sdk-retry"}
        # A refusal by the model server cannot succeed later: the SDK is told so and gives up at once.
        for _ in range(2):
            with self.assertRaises(openai.InternalServerError):
                client.chat.completions.create(model="m", messages=[user("hi")], extra_headers=headers)
        answer = client.chat.completions.create(model="m", messages=[user("hi")], extra_headers=headers)
        self.assertEqual(answer.choices[0].message.content, "fine")
        self.assertEqual([len(request["messages"]) for request in upstream.seen], [1, 1, 1])
        self.assertEqual([row["role"] for row in self.messages(gateway, "sdk-retry")], ["user", "assistant"])

    def test_a_model_server_that_recovers_is_tried_again(self):
        upstream = ModelServer(failures=[503] * 4)
        gateway = Gateway("--upstream", upstream.base_url, "--model", "m")
        self.addCleanup(upstream.close)
        self.addCleanup(gateway.close)
        client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, max_retries=3)
        self.addCleanup(client.close)
        answer = client.chat.completions.create(
            model="m", messages=[user("hi")], extra_headers={"X-Hermes-Session-Id": "sdk-503"}
        )
        self.assertEqual(answer.choices[0].message.content, "fine")
        self.assertEqual([row["role"] for row in self.messages(gateway, "sdk-503")], ["user", "assistant"])

    def messages(self, gateway, session):
        url = gateway.base_url.removesuffix("/v1") + f"/api/sessions/{session}/messages"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["data"]


if __name__ == "__main__":
    unittest.main()
