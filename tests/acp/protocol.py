"""Checks recorded messages against the JSON schema that the TypeScript SDK ships, and against ACP's rules of order.

    python protocol.py SCHEMAS FOLDER

SCHEMAS is the SDK's folder `schema/v1`, and FOLDER has the records. Prints what is wrong, and fails if there is
anything.
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from record import records

# Updates that belong to a prompt, or to the replay of a session that is loaded.
OF_A_TURN = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}
# A message that the client sends wrong on purpose is answered with one of these.
REFUSED = {-32700, -32600, -32601, -32602}
OTHER_SIDE = {"client": "agent", "agent": "client"}


class Schema:
    """One edition of the schema, and the types of each method's parameters and results."""

    def __init__(self, path, is_strict=False):
        self._document = json.loads(Path(path).read_text())
        if is_strict:
            _forbid_unknown_fields(self._document)
        self._types = {}
        for name, definition in self._document["$defs"].items():
            for kind in ("Request", "Response", "Notification"):
                if name.endswith(kind) and "x-method" in definition:
                    self._types[definition["x-method"], kind] = {"$ref": f"#/$defs/{name}"}
        sides = {side["title"]: side for side in self._document["anyOf"]}
        self._sides = {side.lower(): {"anyOf": [sides[side], sides["ProtocolLevel"]]} for side in ("Agent", "Client")}
        self._validators = {}

    def has(self, method):
        return any(method == known for known, _ in self._types)

    def faults(self, method, kind, value):
        """What is wrong with the parameters or the result of a method."""
        return self._check((method, kind), self._types.get((method, kind), False), value)

    def side_faults(self, side, message):
        """What is wrong with a message as a whole, sent by this side."""
        return self._check(side, self._sides[side], message)

    def _check(self, key, schema, value):
        if key not in self._validators:
            whole = {"$defs": self._document["$defs"], "allOf": [schema]}
            self._validators[key] = Draft202012Validator(whole)
        return [f"{error.json_path}: {error.message[:300]}" for error in self._validators[key].iter_errors(value)]


def _forbid_unknown_fields(node):
    """Makes fields an error that the schema does not name, wherever it describes a field by a type of its own."""
    if isinstance(node, list):
        for part in node:
            _forbid_unknown_fields(part)
    elif isinstance(node, dict):
        for name, part in node.items():
            fields = part.values() if name == "properties" else [part] if name == "items" else []
            for field in fields:
                if isinstance(field, dict) and "$ref" in json.dumps(field):
                    field["unevaluatedProperties"] = False
            _forbid_unknown_fields(part)


class Protocol:
    """The rules that messages have to keep."""

    def __init__(self, schemas):
        self._stable = Schema(Path(schemas) / "schema.json")
        self._unstable = Schema(Path(schemas) / "schema.unstable.json")
        self._strict = Schema(Path(schemas) / "schema.unstable.json", is_strict=True)

    def faults(self, entries):
        """What is wrong with the messages of one connection."""
        connection = Connection(self)
        for entry in entries:
            if "line" in entry:
                connection.take(entry["from"], entry["line"])
        connection.end()
        return connection.faults

    def _edition(self, method):
        return self._stable if self._stable.has(method) else self._unstable

    def typed(self, side, method, kind, value):
        """What is wrong with a value. The agent may also send no field that the protocol does not have."""
        faults = self._edition(method).faults(method, kind, value)
        if side == "agent" and not faults:
            faults = self._strict.faults(method, kind, value)
        return faults

    def whole(self, side, message):
        return self._edition(message.get("method", "")).side_faults(side, message)


class Connection:
    """The messages of a connection, in order."""

    def __init__(self, protocol):
        self.faults = []
        self._protocol = protocol
        # By the side that asked and the id: the method, the parameters, and what is wrong with the request.
        self._open = {"client": {}, "agent": {}}
        # Sessions whose turn an earlier connection has begun. It goes on when its question is answered.
        self._taken_up = set()
        self._compactions = {}
        # Sessions that both sides know: the client has named them, or the agent has answered with them.
        self._known = set()
        # Lines that are no request at all. The agent answers those with an error and without an id.
        self._refusals_due = []

    def take(self, side, line):
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("no object")
        except ValueError as error:
            self._wrong_line(side, line, error)
            return
        faults = self._protocol.whole(side, message)
        if "method" not in message:
            self._answer(side, message, faults)
        elif "id" in message:
            method, params = message["method"], message.get("params")
            faults += self._protocol.typed(side, method, "Request", params)
            if message["id"] in self._open[side]:
                self._fault(side, line, "the id is in use")
            self._note(method, params or {})
            self._open[side][message["id"]] = (method, params or {}, faults)
            if side == "agent" and faults:
                self._fault(side, line, *faults)
        else:
            faults += self._protocol.typed(side, message["method"], "Notification", message.get("params"))
            if faults:
                self._fault(side, line, *faults)
            if message["method"] == "session/update":
                self._update(line, message["params"])

    def end(self):
        for line in self._refusals_due:
            self._fault("client", line, "it was not refused")

    def _note(self, method, params):
        """A question without a prompt belongs to a turn of an earlier connection. The next prompt ends that turn."""
        session = params.get("sessionId")
        self._known.add(session)
        if method == "session/request_permission" and not self._is_open("session/prompt", session):
            self._taken_up.add(session)
        elif method == "session/prompt":
            self._taken_up.discard(session)

    def _is_open(self, method, session):
        asked = self._open["client"].values()
        return any(method == open_method and params.get("sessionId") == session for open_method, params, _ in asked)

    def _wrong_line(self, side, line, error):
        if side == "agent":
            self._fault(side, line, f"no message: {error}")
        elif line.strip():
            self._refusals_due.append(line)

    def _answer(self, side, message, faults):
        """An answer has to belong to a request of the other side, and to have its method's form."""
        identifier, line = message.get("id"), json.dumps(message)
        error = message.get("error")
        if identifier is None and error and self._refusals_due:
            self._refusals_due.pop(0)
        elif identifier not in self._open[OTHER_SIDE[side]]:
            faults = [*faults, "no request has this id"]
        else:
            method, _, wrong = self._open[OTHER_SIDE[side]].pop(identifier)
            self._known.add((message.get("result") or {}).get("sessionId"))
            if error is None:
                faults = faults + self._protocol.typed(side, method, "Response", message.get("result"))
                faults += [f"the request is accepted, but: {fault}" for fault in wrong]
            elif wrong and error["code"] not in REFUSED:
                faults = faults + [f"the request is not refused, but: {fault}" for fault in wrong]
        if faults:
            self._fault(side, line, *faults)

    def _update(self, line, params):
        """What a turn does is told while its prompt is not answered, and what a session was, while it is loaded."""
        session, kind = params["sessionId"], params["update"]["sessionUpdate"]
        if session not in self._known:
            self._fault("agent", line, "the client does not know the session yet")
        is_open = self._is_open("session/prompt", session) or self._is_open("session/load", session)
        if kind in OF_A_TURN and not is_open and session not in self._taken_up:
            self._fault("agent", line, "no prompt and no load is open")
        if kind == "compaction_update":
            self._compaction(line, session, params["update"])

    def _compaction(self, line, session, update):
        """A compaction begins once and ends once. A load shows its end again."""
        compaction, status = (session, update["compactionId"]), update["status"]
        before, self._compactions[compaction] = self._compactions.get(compaction), status
        is_due = before is None if status == "in_progress" else before == "in_progress"
        if not is_due and not self._is_open("session/load", session):
            self._fault("agent", line, f"the compaction was {before}")

    def _fault(self, side, line, *faults):
        self.faults.append(f"{side}: {line.strip()[:600]}\n    " + "\n    ".join(faults))


def main(schemas, folder):
    protocol = Protocol(schemas)
    faults = [fault for entries in records(folder) for fault in protocol.faults(entries)]
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
