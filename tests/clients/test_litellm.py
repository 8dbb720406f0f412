"""The LiteLLM proxy in front of Herma: what it passes on of names, histories and another API."""

from conversations import ClientTest
from gateway import KEY
from litellm_proxy import PROXY_KEY, LiteLlmProxy
from openai import OpenAI


class LiteLlm(ClientTest):
    def setUp(self):
        super().setUp()
        proxy = LiteLlmProxy(self.home(), self.base_url, KEY)
        self.addCleanup(proxy.close)
        self.client = OpenAI(base_url=f"{proxy.origin}/v1", api_key=PROXY_KEY, max_retries=0)
        self.addCleanup(self.client.close)

    def talk(self, *prompts, stream=False):
        history = []
        for prompt in prompts:
            history.append({"role": "user", "content": prompt})
            answer = self.client.chat.completions.create(model="m", messages=history, stream=stream)
            if stream:
                words = "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
            else:
                words = answer.choices[0].message.content
            history.append({"role": "assistant", "content": words})

    def test_a_chat_is_one_conversation(self):
        self.talk("I want to see Oslo.", "In May?", "And in June?")
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))

    def test_a_streamed_chat_is_one_conversation(self):
        self.talk("I want to see Oslo.", "In May?", "And in June?", stream=True)
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))

    def test_session_headers_are_passed_on(self):
        for prompt in ("I want to see Oslo.", "In May?"):
            messages = [{"role": "user", "content": prompt}]
            headers = {"X-Hermes-Session-Id": "trip"}
            self.client.chat.completions.create(model="m", messages=messages, extra_headers=headers)
        row = self.one_conversation(*["user", "assistant"] * 2)
        self.assertEqual(row["name"], "trip")

    def test_responses_with_the_whole_input_are_one_conversation(self):
        history = []
        for prompt in ("I want to see Oslo.", "In May?"):
            history.append({"role": "user", "content": prompt})
            history += self.client.responses.create(model="m", input=history).output
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 2))

    def test_responses_by_previous_response_id_are_one_conversation(self):
        last = None
        for prompt in ("I want to see Oslo.", "In May?", "And in June?"):
            last = self.client.responses.create(model="m", input=prompt, previous_response_id=last).id
        self.assert_model_saw_all(self.one_conversation(*["user", "assistant"] * 3))
