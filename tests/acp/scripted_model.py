"""A model server whose answers a prompt decides. It counts tokens, so that small context windows fill up.

As a program it prints its address, and a test in another language asks it over HTTP: `GET /seen`, `GET /shown`,
`GET /has/TEXT`, which waits for a prompt, and `POST /release`.
"""

import itertools
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

# Words of a user's last message that decide the answer.
HOLD, FAIL, THINK, HARMFUL, LONG = "[hold]", "[fail]", "[think]", "[harmful]", "[long]"
# The first time, the model says that the context is too long.
TOO_LONG = "[too long]"
# In the first message: the model never has enough of the tool.
AGAIN = "[again]"
# Words that decide about the summary of a conversation that has them.
HOLD_SUMMARY, NO_SUMMARY = "[hold summary]", "[no summary]"
# `use files__echo {"text": "x"}` calls that tool, if it is offered.
ASKED_CALL = re.compile(r"\buse (\w+) (\{.*?\})", re.DOTALL)
# A request for a summary has the conversation between these.
SUMMARISED = "</conversation>"
PATIENCE = 60


class Model:
    """Answers chat completions on a free port. `seen` has the headers and the body of every request."""

    def __init__(self):
        self.seen = []
        self._held = threading.Semaphore(0)
        self._numbers = itertools.count(1)
        self._arrived = threading.Condition()
        self._server = Server(("127.0.0.1", 0), _handler(self))
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def release(self):
        """Lets one held request, now or later, have its answer."""
        self._held.release()

    def wait_for(self, words, seconds=PATIENCE):
        """Waits until a request whose last message has these words has come."""
        def has_come():
            return any(words in text(messages[-1]) for messages in self.shown())
        with self._arrived:
            if not self._arrived.wait_for(has_come, seconds):
                raise AssertionError(f"the model was not asked: {words}")

    def shown(self):
        """The messages of each request that is no request for a summary."""
        asked = [request["body"]["messages"] for request in self.seen]
        return [messages for messages in asked if SUMMARISED not in text(messages[-1])]

    def _is_first_time(self):
        return sum(TOO_LONG in text(messages[-1]) for messages in self.shown()) == 1

    def take(self, headers, body):
        with self._arrived:
            self.seen.append({"headers": headers, "body": body})
            self._arrived.notify_all()

    def answer(self, body):
        """The message that answers a request, and why it ends. `None` if the request fails."""
        said, number = text(body["messages"][-1]), next(self._numbers)
        if SUMMARISED in said:
            if HOLD_SUMMARY in said:
                self._held.acquire(timeout=PATIENCE)
            return None if NO_SUMMARY in said else ({"content": f"Summary {number}: they counted."}, "stop")
        if HOLD in said:
            self._held.acquire(timeout=PATIENCE)
        if FAIL in said or (TOO_LONG in said and self._is_first_time()):
            return None
        if HARMFUL in said:
            return {"content": "No."}, "content_filter"
        if LONG in said:
            return {"content": "And so on and so"}, "length"
        if AGAIN in text(body["messages"][0]):
            # It calls the tool that the first message names, as long as it is offered one and may.
            said = text(body["messages"][0])
        may_call = body["messages"][-1]["role"] == "user" or AGAIN in said
        asked = ASKED_CALL.search(said) if may_call and body.get("tool_choice") != "none" else None
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        if asked and asked[1] in offered:
            call = {"name": asked[1], "arguments": asked[2]}
            called = [{"index": 0, "id": f"call_{number}", "type": "function", "function": call}]
            return {"content": None, "tool_calls": called}, "tool_calls"
        thought = {"reasoning_content": "It is about a number."} if THINK in said else {}
        return {**thought, "content": f"Answer {number} to “{said[:40]}”."}, "stop"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A connection that the gateway breaks, because it is killed or cancels a turn, is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def text(message):
    """The text of a message, whether it is a string, parts or absent."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _usage(body, message):
    asked, answered = len(json.dumps(body["messages"])) // 4, len(message.get("content") or "") // 4
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def _chunks(message, finish, usage):
    """The same message piece by piece."""
    for name in ("reasoning_content", "content"):
        for word in re.split(r"(?<= )", message.get(name) or ""):
            yield {"choices": [{"index": 0, "delta": {"role": "assistant", name: word}, "finish_reason": None}]}
    if "tool_calls" in message:
        delta = {"role": "assistant", "tool_calls": message["tool_calls"]}
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    yield {"choices": [], "usage": usage}


def _handler(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            match self.path.strip("/").split("/", 1):
                case ["seen"]:
                    answer = model.seen
                case ["shown"]:
                    answer = model.shown()
                case ["has", words]:
                    answer = model.wait_for(unquote(words))
                case _:
                    answer = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
            self.send(200, "application/json", json.dumps(answer))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            if self.path == "/release":
                model.release()
                self.send(200, "application/json", "{}")
                return
            model.take(dict(self.headers), body)
            answered = model.answer(body)
            if answered is None:
                code = "context_length_exceeded" if TOO_LONG in text(body["messages"][-1]) else "not_now"
                self.send(400, "application/json", json.dumps({"error": {"message": "no", "code": code}}))
                return
            message, finish = answered
            usage = _usage(body, message)
            about = {"id": "x", "created": 1, "model": body["model"]}
            if not body.get("stream"):
                choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
                whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
                self.send(200, "application/json", json.dumps(whole))
                return
            about["object"] = "chat.completion.chunk"
            events = [json.dumps({**about, **chunk}) for chunk in _chunks(message, finish, usage)]
            self.send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]))

        def send(self, status, content_type, payload):
            payload = payload.encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except OSError:
                # The gateway does not want the answer any more.
                self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler


def main():
    print(Model().base_url, flush=True)
    # The program ends with its input, and so with the test that started it.
    sys.stdin.read()


if __name__ == "__main__":
    main()
