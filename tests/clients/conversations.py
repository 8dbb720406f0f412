"""A gateway with a model behind it, and what a test reads there: which conversations there are, and what was said."""

import json
import tempfile
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from gateway import KEY, Gateway
from model import Model, said

# The roles of a question that a client's tool helps to answer.
TOOL_ROUND = ["user", "assistant", "tool", "assistant"]


class ClientTest(unittest.TestCase):
    """One gateway and one model for each test."""

    def setUp(self):
        self.model = Model()
        self.addCleanup(self.model.close)
        self.gateway = Gateway("--upstream", self.model.base_url, "--model", "m")
        self.addCleanup(self.gateway.close)
        self.base_url = self.gateway.base_url

    def home(self):
        """A directory for a client's files that goes when the test ends."""
        directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(directory.cleanup)
        return Path(directory.name)

    def rows(self, **parameters):
        """Rows of conversations, oldest first."""
        query = urllib.parse.urlencode({"order": "created_at", "limit": 100, **parameters})
        return self._get(f"/api/sessions?{query}")["data"]

    def exactly(self, count, **parameters):
        """The rows of a list that has that many, oldest first."""
        rows = self.rows(**parameters)
        self.assertEqual(len(rows), count, [self.messages(row) for row in rows])
        return rows

    def messages(self, row):
        """All that was said in a conversation, without summaries."""
        rows = self._get(f"/api/sessions/{row['id']}/messages?view=full&limit=100")["data"]
        return [said(row) for row in rows if row.get("kind") != "summary"]

    def compactions(self, row):
        return self._get(f"/api/sessions/{row['id']}/compactions")["data"]

    def user_texts(self, row):
        return [words for role, words in self.messages(row) if role == "user"]

    def one_conversation(self, *roles):
        """The only conversation that there is. Each message is there once, in the order of `roles`."""
        row, = self.exactly(1)
        messages = self.messages(row)
        self.assertEqual([role for role, _ in messages], list(roles), messages)
        asked = self.user_texts(row)
        self.assertEqual(len(set(asked)), len(asked), asked)
        return row

    def assert_model_saw_all(self, row):
        """The last request showed the model all that the conversation has before the last answer."""
        self.assertEqual(self.model.turns()[-1], self.messages(row)[:-1])

    def _get(self, path):
        origin = self.base_url.removesuffix("/v1")
        request = urllib.request.Request(origin + path, headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
