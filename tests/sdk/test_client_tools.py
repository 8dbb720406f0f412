"""Namespaces, custom tools and hosted tools, as users of the official OpenAI SDK see them."""

import json
import unittest

import openai

from gateway import KEY, Gateway

AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Other agents.",
    "tools": [
        {"type": "function", "name": "close", "description": "Ends one.", "parameters": {"type": "object"}},
        {"type": "custom", "name": "say", "description": "Says something."},
    ],
}
TOOLS = [AGENTS, {"type": "web_search"}]
ASKED = 'use agents__close {"id": 7} and agents__say {"input": "good\\nbye"}'


class ClientTools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway()
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()

    def check(self, response):
        close, say = response.output
        self.assertEqual((close.type, close.name, close.namespace), ("function_call", "close", "agents"))
        self.assertEqual(json.loads(close.arguments), {"id": 7})
        self.assertEqual((say.type, say.name, say.namespace), ("custom_tool_call", "say", "agents"))
        self.assertEqual(say.input, "good\nbye")
        self.assertEqual([tool.type for tool in response.tools], ["namespace"])

    def test_calls_are_items_that_the_sdk_knows_and_their_results_go_on(self):
        response = self.client.responses.create(model="offline", input=ASKED, tools=TOOLS)
        self.check(response)
        self.check(self.client.responses.retrieve(response.id))
        close, say = response.output
        results = [
            {"type": "function_call_output", "call_id": close.call_id, "output": "closed"},
            {
                "type": "custom_tool_call_output",
                "call_id": say.call_id,
                "output": [{"type": "input_text", "text": "said"}],
            },
        ]
        after = self.client.responses.create(
            model="offline", input=results, tools=TOOLS, previous_response_id=response.id
        )
        self.assertIn("closed", after.output_text)
        listed = self.client.responses.input_items.list(after.id, order="asc").data
        self.assertEqual([item.type for item in listed], ["function_call_output", "custom_tool_call_output"])

    def test_the_accumulated_stream_is_the_stored_response(self):
        with self.client.responses.stream(model="offline", input=ASKED, tools=TOOLS) as stream:
            events = list(stream)
            final = stream.get_final_response()
        self.check(final)
        text = "".join(event.delta for event in events if event.type == "response.custom_tool_call_input.delta")
        self.assertEqual(text, "good\nbye")
        stored = self.client.responses.retrieve(final.id)
        self.check(stored)
        self.assertEqual([item.id for item in stored.output], [item.id for item in final.output])

    def test_a_choice_that_demands_a_hosted_tool_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.responses.create(
                model="offline", input="hi", tools=TOOLS, tool_choice={"type": "web_search_preview"}
            )
        self.assertEqual(refused.exception.param, "tool_choice")


if __name__ == "__main__":
    unittest.main()
