"""The checker itself: a message that breaks the protocol is found."""

import json
import os
import unittest
from pathlib import Path

from protocol import Protocol

ASKED = {"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]}}
ANSWERED = {"id": 1, "result": {"stopReason": "end_turn"}}


def said(**content):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}, **content}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def compacts(status):
    update = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": status}
    return "agent", {"method": "session/update", "params": {"sessionId": "s", "update": update}}


class Checker(unittest.TestCase):
    def faults(self, *sent):
        def line(message):
            return message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        protocol = Protocol(Path(os.environ["ACP_SDK"]) / "schema" / "v1")
        return protocol.faults([{"pid": 1}, *({"from": side, "line": line(message)} for side, message in sent)])

    def test_a_conversation_as_it_should_be_has_no_faults(self):
        sent = [("client", ASKED), ("agent", said()), ("agent", ANSWERED)]
        self.assertEqual(self.faults(*sent), [])

    def test_what_the_agent_must_not_send_is_found(self):
        for wrong, sent in {
            "no message": [("agent", "a panic")],
            "no object": [("agent", "[]")],
            "no request has this id": [("agent", ANSWERED)],
            "the client does not know the session yet": [("agent", said())],
            "no prompt and no load is open": [("client", ASKED), ("agent", ANSWERED), ("agent", said())],
            "the compaction was completed": [
                ("client", ASKED), *map(compacts, ["in_progress", "completed", "completed"])
            ],
            "the compaction was None": [("client", ASKED), compacts("completed")],
            "'tired' is not valid": [("client", ASKED), ("agent", {"id": 1, "result": {"stopReason": "tired"}})],
            "Unevaluated properties are not allowed ('hermes'": [("client", ASKED), ("agent", said(hermes={}))],
            "None is not of type 'object'": [("client", ASKED), ("agent", {"id": 1})],
        }.items():
            with self.subTest(wrong):
                self.assertIn(wrong, "\n".join(self.faults(*sent)))

    def test_a_wrong_request_has_to_be_refused(self):
        wrong = {"id": 1, "method": "session/prompt", "params": {"prompt": "x"}}
        refused = {"id": 1, "error": {"code": -32602, "message": "no"}}
        self.assertEqual(self.faults(("client", wrong), ("agent", refused)), [])
        self.assertIn("the request is accepted", "\n".join(self.faults(("client", wrong), ("agent", ANSWERED))))
        self.assertIn("it was not refused", "\n".join(self.faults(("client", "{no json"))))


if __name__ == "__main__":
    unittest.main()
