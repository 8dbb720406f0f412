"""Thousands of requests that are made from `/openapi.json`, right and wrong ones: no answer is a 5xx."""

import json
import tempfile
import unittest
import urllib.request
from pathlib import Path

from gateway import KEY, Gateway
from programs import program, run

# The feed of events never ends. What deletes would leave nothing for the other requests.
STREAMS = ["--exclude-path", "/api/events"]
DELETIONS = ["--exclude-method", "DELETE", "--exclude-path-regex", "/(end|rewind|stop|cancel)$"]
BOUNDS = ["--max-examples", "20", "--max-time", "60", "--request-timeout", "20", "--seed", "1"]
CHECK = ["--checks", "not_a_server_error", "--phases", "coverage,fuzzing", "--continue-on-failure",
         "--suppress-health-check", "all", "--warnings", "off"]


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.gateway = Gateway()
        self.addCleanup(self.gateway.close)
        self.url = self.gateway.base_url.removesuffix("/v1")

    def ask(self, method, path, body=None, **headers):
        payload = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.url + path, payload, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def fuzz(self, *arguments, parameters=()):
        """Fails if the program finds an answer that is a 5xx. `parameters` take the place of made-up values."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        home = Path(directory.name)
        settings = home / "schemathesis.toml"
        settings.write_text("[parameters]\n" + "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in parameters))
        command = [program("fuzz/bin", "schemathesis"), "--config-file", str(settings), "run",
                   f"{self.url}/openapi.json", "--header", f"Authorization: Bearer {KEY}"]
        said = run([*command, *CHECK, *BOUNDS, *STREAMS, *arguments], home)
        self.assertIn("Test cases:", said)
        self.assertEqual(self.ask("GET", "/health")["status"], "ok")

    def test_requests_that_name_nothing_are_never_a_server_error(self):
        self.fuzz()

    def test_requests_that_name_a_conversation_are_never_a_server_error(self):
        for text in ("to Oslo", "and back"):
            self.ask("POST", "/v1/responses", {"input": text, "conversation": "trip"}, **{"X-Hermes-Session-Key": "ann"})
        message = self.ask("GET", "/api/sessions/trip/messages")["data"][0]["id"]
        response = self.ask("POST", "/v1/responses", {"input": "again", "conversation": "trip"})["id"]
        self.fuzz(*DELETIONS, "--include-path-regex", "^/api/session", parameters=[
            ("path.alias", "trip"), ("path.key", "ann"), ("path.message_id", message)])
        self.fuzz(*DELETIONS, "--include-path-regex", "^/v1/responses", parameters=[("path.id", response)])
        self.fuzz(*DELETIONS, "--include-path-regex", "^/v1/conversations", parameters=[("path.id", "trip")])
