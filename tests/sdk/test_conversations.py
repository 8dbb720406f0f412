"""Conversations, background responses, streams that are read again, counting and compacting with the official OpenAI SDK."""

import json
import queue
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

from gateway import KEY, Gateway


def user(text):
    return {"role": "user", "content": text}


def texts(items):
    return [item.content[0].text for item in items]


def essence(event):
    """What of an event has to be the same whenever it is read: all of it but the response, which is told by id and status."""
    fields = event.model_dump()
    if "response" in fields:
        fields["response"] = (event.response.id, event.response.status)
    return fields


class HeldModelServer:
    """Answers chat completions when a test says so: `next` waits for a request, whose `answer` lets it have one."""

    class Asked:
        def __init__(self, body):
            self.body = body
            self._text = queue.Queue()

        def answer(self, text):
            self._text.put(text)

        def text(self):
            return self._text.get(timeout=60)

    def __init__(self):
        self._asked = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = outer.Asked(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                outer._asked.put(asked)
                try:
                    text = asked.text()
                    kind, payload = outer.stream(text) if asked.body.get("stream") else outer.whole(text)
                    self.send_response(200)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(payload)))
                    self.end_headers()
                    self.wfile.write(payload)
                except (queue.Empty, ConnectionError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @staticmethod
    def whole(text):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        return "application/json", json.dumps(body).encode()

    @staticmethod
    def stream(text):
        about = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        words = [{"index": 0, "delta": {"content": word + " "}, "finish_reason": None} for word in text.split()]
        words[-1]["delta"]["content"] = text.split()[-1]
        chunks = [{**about, "choices": [word]} for word in words]
        chunks.append({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        chunks.append({**about, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}})
        frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return "text/event-stream", "".join([*frames, "data: [DONE]\n\n"]).encode()

    def next(self):
        return self._asked.get(timeout=30)

    def unexpected(self):
        return self._asked.qsize()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Polling:
    """What both kinds of background tests do."""

    def ended(self, response_id):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            response = self.client.responses.retrieve(response_id)
            if response.status not in ("queued", "in_progress"):
                return response
            time.sleep(0.02)
        self.fail("the response did not end")

    def read(self, response_id, **more):
        return list(self.client.responses.retrieve(response_id, stream=True, **more))


class OfflineCase(unittest.TestCase):
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


class Conversations(OfflineCase):
    def test_a_conversation_is_made_read_changed_and_deleted(self):
        conversations = self.client.conversations
        made = conversations.create(metadata={"topic": "Oslo"})
        self.assertRegex(made.id, "^conv_[0-9a-f]{32}$")
        self.assertEqual((made.object, made.metadata), ("conversation", {"topic": "Oslo"}))
        self.assertEqual(conversations.retrieve(made.id).to_dict(), made.to_dict())
        changed = conversations.update(made.id, metadata={"topic": "Rome"})
        self.assertEqual((changed.id, changed.created_at, changed.metadata), (made.id, made.created_at, {"topic": "Rome"}))
        self.assertEqual(conversations.retrieve(made.id).to_dict(), changed.to_dict())
        deleted = conversations.delete(made.id)
        self.assertEqual((deleted.id, deleted.object, deleted.deleted), (made.id, "conversation.deleted", True))
        for ask in (conversations.retrieve, conversations.delete, conversations.items.list):
            with self.subTest(ask.__name__), self.assertRaises(openai.NotFoundError):
                ask(made.id)
        with self.assertRaises(openai.NotFoundError):
            self.respond("hi", conversation=made.id)

    def test_what_it_begins_with_is_its_history(self):
        items = [user("my name is Ada"), {"role": "assistant", "content": "Hello, Ada."}]
        made = self.client.conversations.create(items=items)
        answer = self.respond("and now?", conversation=made.id)
        self.assertIn("message 2 of this conversation", answer.output_text)
        self.assertEqual(answer.conversation.id, made.id)
        said = list(self.client.conversations.items.list(made.id, order="asc"))
        self.assertEqual([item.role for item in said], ["user", "assistant"] * 2)
        self.assertEqual(texts(said), ["my name is Ada", "Hello, Ada.", "and now?", answer.output_text])

    def test_items_are_added_paged_through_read_and_deleted(self):
        made = self.client.conversations.create()
        items = self.client.conversations.items
        words = ["one", "two", "three", "four", "five"]
        added = items.create(made.id, items=[user(word) for word in words])
        self.assertEqual((texts(added.data), added.has_more), (words, False))
        self.assertEqual((added.first_id, added.last_id), (added.data[0].id, added.data[4].id))
        self.assertEqual(texts(items.list(made.id, order="asc", limit=2)), words)
        self.assertEqual(texts(items.list(made.id, limit=2)), words[::-1])
        self.assertEqual(texts(items.list(made.id, order="asc", after=added.data[1].id)), words[2:])
        page = items.list(made.id, order="asc", limit=2)
        self.assertEqual((len(page.data), page.has_more, page.last_id), (2, True, added.data[1].id))
        third = items.retrieve(added.data[2].id, conversation_id=made.id)
        self.assertEqual(third.to_dict(), added.data[2].to_dict())
        self.assertEqual(items.delete(third.id, conversation_id=made.id).id, made.id)
        with self.assertRaises(openai.NotFoundError):
            items.retrieve(third.id, conversation_id=made.id)
        self.assertEqual(texts(items.list(made.id, order="asc")), ["one", "two", "four", "five"])

    def test_a_slug_and_a_chat_are_conversations_too(self):
        slug = self.respond("hello", conversation="said-before")
        self.assertEqual(self.client.conversations.retrieve(slug.conversation.id).id, slug.conversation.id)
        made = self.client.conversations.create()
        headers = {"X-Hermes-Session-Id": made.id}
        self.client.chat.completions.create(model="offline", messages=[user("by chat")], extra_headers=headers)
        self.assertEqual(len(list(self.client.conversations.items.list(made.id))), 2)


class Background(Polling, OfflineCase):
    def test_a_background_response_is_completed_by_and_by(self):
        begun = self.respond("hello", background=True, conversation="background")
        self.assertIn(begun.status, ("queued", "in_progress"))
        self.assertEqual((begun.background, begun.output), (True, []))
        done = self.ended(begun.id)
        self.assertEqual((done.id, done.status), (begun.id, "completed"))
        self.assertIn("hello", done.output_text)
        following = self.respond("and now?", previous_response_id=begun.id)
        self.assertIn("message 2 of this conversation", following.output_text)

    def test_a_stream_read_again_has_the_same_events_with_the_same_numbers(self):
        events = list(self.respond("one two three four", background=True, stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[-1].type, "response.completed")
        response_id = events[-1].response.id
        expected = [essence(event) for event in events]
        self.assertEqual([essence(event) for event in self.read(response_id)], expected)
        for number in (0, 3, len(events) - 2):
            with self.subTest(starting_after=number):
                again = [essence(event) for event in self.read(response_id, starting_after=number)]
                self.assertEqual(again, expected[number + 1 :])
        with self.client.responses.stream(response_id=response_id, starting_after=3) as stream:
            self.assertEqual(next(iter(stream)).sequence_number, 4)
            self.assertEqual(stream.get_final_response().output_text, self.ended(response_id).output_text)

    def test_what_is_not_there_is_not_found(self):
        unknown = "resp_" + "0" * 32
        for ask in (self.read, self.client.responses.cancel):
            with self.subTest(ask.__name__), self.assertRaises(openai.NotFoundError):
                ask(unknown)


class HeldBackground(Polling, unittest.TestCase):
    def setUp(self):
        self.model = HeldModelServer()
        self.addCleanup(self.model.close)
        gateway = Gateway("--upstream", self.model.base_url, "--model", "m")
        self.addCleanup(gateway.close)
        self.client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)

    def begin(self, text, **more):
        return self.client.responses.create(model="m", input=text, background=True, **more)

    def test_a_cancelled_response_stays_cancelled(self):
        begun = self.begin("hi", conversation="cancelled")
        asked = self.model.next()
        self.assertEqual(self.client.responses.retrieve(begun.id).status, "in_progress")
        self.assertEqual(self.client.responses.cancel(begun.id).status, "cancelled")
        asked.answer("too late")
        self.assertEqual(self.client.responses.cancel(begun.id).status, "cancelled")
        following = self.begin("and now?", conversation="cancelled")
        second = self.model.next()
        self.assertNotIn("too late", json.dumps(second.body["messages"]))
        second.answer("fine")
        self.assertEqual(self.ended(following.id).output_text, "fine")
        self.assertEqual(self.client.responses.retrieve(begun.id).status, "cancelled")

    def test_a_response_that_waits_for_another_can_be_cancelled(self):
        first = self.begin("one", conversation="waiting")
        asked = self.model.next()
        second = self.begin("two", conversation="waiting")
        self.assertEqual(second.status, "queued")
        self.assertEqual(self.client.responses.cancel(second.id).status, "cancelled")
        asked.answer("fine")
        self.assertEqual(self.ended(first.id).status, "completed")
        self.assertEqual(self.client.responses.retrieve(second.id).status, "cancelled")
        self.assertEqual(self.model.unexpected(), 0)

    def test_a_stream_that_is_left_goes_on_and_is_read_from_there(self):
        seen = []
        with self.begin("hi", stream=True) as stream:
            for event in stream:
                seen.append(event)
                if event.type == "response.in_progress":
                    break
        response_id = seen[0].response.id
        self.model.next().answer("all is fine")
        events = seen + self.read(response_id, starting_after=seen[-1].sequence_number)
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[-1].type, "response.completed")
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(text, "all is fine")
        again = [essence(event) for event in self.read(response_id)]
        self.assertEqual(again, [essence(event) for event in events])


class CountingAndCompacting(OfflineCase):
    def count(self, text, **more):
        counted = self.client.responses.input_tokens.count(model="offline", input=text, **more)
        self.assertEqual(counted.object, "response.input_tokens")
        return counted.input_tokens

    def test_input_tokens_are_counted(self):
        short = self.count("hello")
        self.assertGreater(short, 0)
        self.assertGreater(self.count("hello, this is a good deal longer than that"), short)
        self.assertGreater(self.count("hello", instructions="be very kind to everybody"), short)
        said = self.respond("my name is Ada", conversation="counted")
        self.assertGreater(self.count("hello", conversation="counted"), short)
        self.assertGreater(self.count("hello", previous_response_id=said.id), short)
        self.assertIn("message 2 of this conversation", self.respond("and now?", conversation="counted").output_text)

    def test_compacting_gives_items_to_go_on_with(self):
        history = []
        for number in range(20):
            history.append(user(f"question {number}: " + "what else was there to see? " * 10))
            history.append({"role": "assistant", "content": f"answer {number}: " + "one more thing of many. " * 10})
        compacted = self.client.responses.compact(model="offline", input=history)
        self.assertEqual(compacted.object, "response.compaction")
        self.assertGreater(compacted.usage.total_tokens, 0)
        items = [item.model_dump(exclude_none=True) for item in compacted.output]
        self.assertEqual([item["type"] for item in items].count("compaction"), 1)
        self.assertLess(len(json.dumps(items)), len(json.dumps(history)))
        following = self.respond([*items, user("and now?")])
        self.assertIn("and now?", following.output_text)


if __name__ == "__main__":
    unittest.main()
