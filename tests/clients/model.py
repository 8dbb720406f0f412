"""A model server for real clients. No two answers are alike, and it calls the tools that a prompt asks for."""

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# `use weather {"city": "Oslo"}` in a user's message calls that tool.
ASKED_CALL = re.compile(r"\buse (\w+) (\{.*\})", re.DOTALL)
# What a front end's helpers are answered. Each of them reads the key that it knows.
HELP = json.dumps({"title": "A trip to Oslo", "tags": ["Travel"], "follow_ups": ["And in June?"]})
USAGE = {"prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40}


class Model:
    """Answers chat completions on a free port. `seen` has the body of every request."""

    def __init__(self):
        self.seen = []
        self._numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def turns(self):
        """What the model was shown in each request that is no front end's helper, without system messages."""
        asked = [body["messages"] for body in self.seen if not _is_help(body["messages"])]
        return [[said(one) for one in messages if one["role"] not in ("system", "developer")] for messages in asked]

    def answer(self, body):
        self.seen.append(body)
        messages = body["messages"]
        last = messages[-1]
        if _is_help(messages):
            return {"role": "assistant", "content": HELP}
        asked = ASKED_CALL.search(text(last)) if last["role"] == "user" else None
        offered = {tool["function"]["name"] for tool in body.get("tools", ()) if tool["type"] == "function"}
        number = next(self._numbers)
        if asked and asked[1] in offered:
            call = {"name": asked[1], "arguments": asked[2]}
            calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": call}]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        # Long enough for a client's request to be recognised by the answer alone.
        words = "this is everything that the model can say about what came last"
        return {"role": "assistant", "content": f"Answer {number}: {words}, “{text(last)[:60]}”."}


def text(message):
    """The text of a message, whether it is a string, parts or absent."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def said(message):
    """A message as (role, text), and a call of a tool as (role, "name(arguments)")."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    called = ", ".join(f"{call['name']}({call['arguments']})" for call in calls)
    return message["role"], called or text(message)


def _is_help(messages):
    return text(messages[-1]).startswith("### Task:")


def _handler(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = model.answer(body)
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            about = {"id": "x", "created": 1, "model": body["model"]}
            if not body.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": finish}
                whole = {**about, "object": "chat.completion", "choices": [choice], "usage": USAGE}
                self.send("application/json", json.dumps(whole))
                return
            chunks = [{"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                      {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
                      {"choices": [], "usage": USAGE}]
            events = [json.dumps({**about, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
            self.send("text/event-stream", "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]))

        def send(self, content_type, payload):
            payload = payload.encode()
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_):
            pass

    return Handler
