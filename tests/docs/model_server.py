"""A model server that offers every model of the pages and answers every question, on a free port of loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODELS = ("llama3.2", "smollm2", "qwen3-8b", "gpt-5-mini")


class ModelServer:
    def __init__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        models = [{"id": model, "object": "model", "created": 0, "owned_by": "tests"} for model in MODELS]
        self.send("application/json", json.dumps({"object": "list", "data": models}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        about = {"id": "x", "created": 1, "model": body["model"]}
        message = {"role": "assistant", "content": f"Oslo is worth a journey, says {body['model']}."}
        usage = {"prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.send("application/json", json.dumps({**about, "object": "chat.completion", "choices": [choice],
                                                      "usage": usage}))
            return
        chunks = [{"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
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
