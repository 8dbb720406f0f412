"""A running gateway, and a small model server whose failures a test decides."""

import json
import os
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sdk-test-key"


class Gateway:
    """`herma serve` on a free port with a data directory of its own."""

    def __init__(self, *arguments):
        self._data = tempfile.TemporaryDirectory()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HERMA_")}
        environment["HERMA_API_KEY"] = KEY
        command = [os.environ["HERMA_BIN"], "serve", "--listen", "127.0.0.1:0", "--data", self._data.name, *arguments]
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if line.startswith("herma listening on "):
                self.base_url = line.split()[-1] + "/v1"
                break
        else:
            raise RuntimeError("herma did not start")
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def close(self):
        self._process.terminate()
        self._process.wait(timeout=30)
        self._process.stderr.close()
        self._data.cleanup()


class ModelServer:
    """Answers chat completions. `failures` are statuses to answer with before it works; `seen` is what it was asked."""

    def __init__(self, failures=()):
        self.failures = list(failures)
        self.seen = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.seen.append(body)
                if outer.failures:
                    self.answer(outer.failures.pop(0), {"error": {"message": "not now"}})
                    return
                message = {"role": "assistant", "content": "fine"}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
                self.answer(200, {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage})

            def answer(self, status, body):
                payload = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
