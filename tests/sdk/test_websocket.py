"""The official OpenAI SDK's WebSocket, `client.responses.connect()`, against the running gateway."""

import json
import unittest

import openai
import websockets.exceptions

from gateway import KEY, Gateway

WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ENDINGS = ("response.completed", "response.failed", "response.incomplete", "error")


class OneConnection(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway()
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()

    def connect(self, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = self.client.responses.connect(extra_headers=named).enter()
        self.addCleanup(connection.close)
        return connection

    def events(self, connection):
        events = []
        while not events or events[-1].type not in ENDINGS:
            events.append(connection.recv())
        return events

    def turn(self, connection, text, **more):
        connection.response.create(model="offline", input=text, **more)
        return self.events(connection)

    def response(self, connection, text, **more):
        last = self.turn(connection, text, **more)[-1]
        self.assertEqual(last.type, "response.completed", last)
        return last.response

    def test_a_turn_is_a_numbered_row_of_events_and_the_response_is_stored(self):
        events = self.turn(self.connect(), "hello")
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual((events[0].type, events[-1].type), ("response.created", "response.completed"))
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        response = events[-1].response
        self.assertEqual(response.output[0].content[0].text, text)
        self.assertEqual(self.client.responses.retrieve(response.id).output_text, text)

    def test_turns_chain_by_the_response_before_and_by_the_session_of_the_upgrade(self):
        connection = self.connect()
        one = self.response(connection, "my name is Ada")
        two = self.response(connection, "and now?", previous_response_id=one.id)
        self.assertIn("message 2 of this conversation", two.output[0].content[0].text)
        named = self.connect(X_Hermes_Session_Id="sdk-socket")
        self.response(named, "one")
        again = self.response(named, "two")
        self.assertIn("message 2 of this conversation", again.output[0].content[0].text)
        self.assertEqual(again.model_extra["session"]["session_id"], "sdk-socket")

    def test_a_chain_that_is_stored_nowhere_goes_on_while_the_connection_is_open(self):
        connection = self.connect()
        one = self.response(connection, "my name is Ada", store=False)
        two = self.response(connection, "and now?", store=False, previous_response_id=one.id)
        self.assertIn("message 2 of this conversation", two.output[0].content[0].text)
        (event,) = self.turn(self.connect(), "x", store=False, previous_response_id=two.id)
        self.assertEqual(event.error.code, "previous_response_not_found")
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(two.id)

    def test_two_requests_at_once_are_answered_in_order(self):
        connection = self.connect()
        for text in ("first", "second"):
            connection.response.create(model="offline", input=text)
        for text in ("first", "second"):
            self.assertIn(text, self.events(connection)[-1].response.output[0].content[0].text)

    def test_a_tool_is_called_and_its_result_is_answered(self):
        connection = self.connect()
        asked = self.response(connection, "please call weather for Oslo", tools=[WEATHER])
        call = asked.output[0]
        self.assertEqual((call.type, call.name), ("function_call", "weather"))
        self.assertIn("city", json.loads(call.arguments))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}
        answer = self.response(connection, [result], previous_response_id=asked.id, tools=[WEATHER])
        self.assertIn("21 degrees", answer.output[0].content[0].text)

    def test_an_error_is_an_event_and_the_next_turn_works(self):
        connection = self.connect()
        (event,) = self.turn(connection, "x", previous_response_id="resp_" + "0" * 32)
        self.assertEqual((event.type, event.status), ("error", 400))
        self.assertEqual((event.error.code, event.error.param), ("previous_response_not_found", "previous_response_id"))
        self.assertIn("fine", self.response(connection, "fine").output[0].content[0].text)

    def test_a_wrong_key_does_not_connect(self):
        with self.assertRaises(websockets.exceptions.InvalidStatus) as refused:
            self.client.with_options(api_key="wrong").responses.connect().enter()
        self.assertEqual(refused.exception.response.status_code, 401)

    def test_a_message_that_is_too_large_is_told_so(self):
        connection = self.connect()
        (event,) = self.turn(connection, "x" * 10_000_000)
        self.assertEqual((event.status, event.error.code), (413, "body_too_large"))
        with self.assertRaises(websockets.exceptions.ConnectionClosedError) as closed:
            connection.recv()
        self.assertEqual(closed.exception.rcvd.code, 1009)


class AsyncConnection(unittest.IsolatedAsyncioTestCase):
    async def test_the_asynchronous_client_has_the_same_turns(self):
        gateway = Gateway()
        self.addCleanup(gateway.close)
        async with openai.AsyncOpenAI(base_url=gateway.base_url, api_key=KEY, max_retries=0) as client:
            async with client.responses.connect() as connection:
                await connection.response.create(model="offline", input="hello")
                async for event in connection:
                    if event.type in ENDINGS:
                        break
        self.assertEqual(event.type, "response.completed")
        self.assertIn("hello", event.response.output[0].content[0].text)


if __name__ == "__main__":
    unittest.main()
