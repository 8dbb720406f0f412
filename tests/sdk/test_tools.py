"""Tools that Herma runs, as users of the official OpenAI SDK see them."""

import json
import pathlib
import sys
import tempfile
import unittest

import openai

from gateway import KEY, Gateway

SERVER = pathlib.Path(__file__).parents[2] / "crates" / "testkit" / "src" / "mcp_server.py"
NOTES = {"type": "mcp", "server_label": "notes"}


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        server = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(SERVER))}]\n"
        cls.config.write(f'[tools.mcp.calc]\n{server}approval = "auto"\n[tools.mcp.notes]\n{server}approval = "ask"\n')
        cls.config.flush()
        cls.gateway = Gateway("--config", cls.config.name)
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()
        cls.config.close()

    def respond(self, text, **more):
        return self.client.responses.create(model="offline", input=text, **more)

    def test_a_call_is_an_item_that_the_sdk_knows(self):
        response = self.respond('please call calc__add {"a": 1, "b": 2}')
        call, message = response.output
        self.assertEqual((call.type, call.server_label, call.name, call.status), ("mcp_call", "calc", "add", "completed"))
        self.assertEqual((json.loads(call.arguments), call.output, call.error), ({"a": 1, "b": 2}, "3", None))
        self.assertIn("3", message.content[0].text)
        stored = self.client.responses.retrieve(response.id)
        self.assertEqual(stored.output, response.output)

    def test_the_accumulated_stream_is_the_stored_response(self):
        text = 'please call calc__add {"a": 1, "b": 2} and calc__broken {}'
        with self.client.responses.stream(model="offline", input=text) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        for kind in ("in_progress", "completed", "failed"):
            self.assertIn(f"response.mcp_call.{kind}", kinds)
        self.assertIn("response.mcp_call_arguments.done", kinds)
        self.assertEqual([item.type for item in final.output], ["mcp_call", "mcp_call", "message"])
        self.assertEqual([item.status for item in final.output], ["completed", "failed", "completed"])
        self.assertEqual(final.output[1].error.type, "mcp_tool_execution_error")
        stored = self.client.responses.retrieve(final.id)
        self.assertEqual([item.id for item in stored.output], [item.id for item in final.output])
        self.assertEqual(stored.output_text, final.output_text)

    def test_a_question_is_answered_by_the_next_request(self):
        for approve in (True, False):
            with self.subTest(approve=approve):
                asked = self.respond("please call notes__read_note", tools=[NOTES])
                self.assertEqual(asked.tools[0].server_label, "notes")
                question = asked.output[-1]
                self.assertEqual((question.type, question.server_label), ("mcp_approval_request", "notes"))
                answer = {"type": "mcp_approval_response", "approval_request_id": question.id, "approve": approve}
                response = self.client.responses.create(
                    model="offline", previous_response_id=asked.id, input=[answer], tools=[NOTES]
                )
                call = response.output[0]
                self.assertEqual((call.type, call.name), ("mcp_call", "read_note"))
                self.assertEqual(call.output, "the note" if approve else None)
                self.assertEqual(call.status, "completed" if approve else "failed")

    def test_a_question_is_streamed_as_a_whole_item(self):
        with self.client.responses.stream(
            model="offline", input="please call notes__read_note", tools=[NOTES]
        ) as stream:
            stream.until_done()
            final = stream.get_final_response()
        self.assertEqual([item.type for item in final.output], ["mcp_approval_request"])

    def test_without_its_server_in_the_list_a_call_is_denied(self):
        call = self.respond("please call notes__read_note").output[0]
        self.assertEqual((call.type, call.status, call.output), ("mcp_call", "failed", None))
        self.assertEqual(call.error.type, "mcp_protocol_error")
        self.assertIn("denied", call.error.message)

    def test_an_answer_to_an_unknown_question_is_refused(self):
        answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.create(model="offline", input=[answer])
        self.assertEqual(refused.exception.param, "input[0].approval_request_id")

    def test_to_a_chat_client_a_turn_is_one_message(self):
        message = {"role": "user", "content": 'please call calc__add {"a": 2, "b": 2}'}
        whole = self.client.chat.completions.create(model="offline", messages=[message])
        self.assertIsNone(whole.choices[0].message.tool_calls)
        self.assertIn("4", whole.choices[0].message.content)
        with self.client.chat.completions.stream(model="offline", messages=[message]) as stream:
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual(final.choices[0].finish_reason, "stop")

    def test_the_header_switches_tools_off(self):
        off = {"X-Hermes-Tools": "off"}
        response = self.respond('please call calc__add {"a": 1, "b": 2}', extra_headers=off)
        self.assertEqual([item.type for item in response.output], ["message"])
        with self.assertRaises(openai.BadRequestError) as refused:
            self.respond("hi", extra_headers={"X-Hermes-Tools": "on"})
        self.assertEqual(refused.exception.param, "X-Hermes-Tools")


if __name__ == "__main__":
    unittest.main()
