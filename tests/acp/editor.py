"""An editor made of the official Python SDK, and what its tests share."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import unittest
from contextlib import asynccontextmanager
from pathlib import Path

import acp
from acp.transports import spawn_stdio_transport
from protocol import Protocol
from record import records
from scripted_model import Model

HERE = Path(__file__).parent
# An MCP server with a tool that adds two numbers, and that asks.
MCP_SERVER = HERE.parent / "sdk" / "official_mcp_server.py"
# Ids of conversations, sessions, messages and so on. No model server may see one.
OWN_ID = re.compile(r"\b(conv|sess|msg|turn|cmp|resp|run)_[0-9a-f]{32}")
LONG_TEXT = "all work and no play makes a long conversation " * 12
# So small that a few long prompts fill it.
SMALL_WINDOW = 1200


class Editor(acp.Client):
    """Notes what it is told. `updates` has the updates of all sessions as plain data, in order."""

    def __init__(self):
        self.updates = []
        # The questions that were asked, and the option that the person chooses.
        self.questions, self.choice = [], None

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update.model_dump(by_alias=True, exclude_none=True)))

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((session_id, tool_call, [(option.option_id, option.kind) for option in options]))
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return acp.RequestPermissionResponse(outcome=outcome)

    def of(self, session):
        """The updates of one session so far."""
        return [update for owner, update in self.updates if owner == session]


class Connected:
    """A connection of the SDK, its editor, and the agent's process id."""

    def __init__(self, agent, editor, writer, folder, cwd):
        self.agent, self.editor = agent, editor
        self._writer, self._folder, self.cwd = writer, folder, str(cwd)

    async def new(self, **meta):
        return await self.agent.new_session(cwd=self.cwd, **meta)

    async def load(self, session):
        return await self.agent.load_session(cwd=self.cwd, session_id=session)

    async def prompt(self, session, text):
        """The answer to a prompt, and the updates that came before it."""
        known = len(self.editor.of(session))
        answer = await self.begin(session, text)
        return answer, self.editor.of(session)[known:]

    def begin(self, session, text):
        """Sends a prompt. The task has its answer."""
        return asyncio.ensure_future(self.agent.prompt(session_id=session, prompt=[acp.text_block(text)]))

    async def until_compacted(self, session):
        """Prompts until a compaction is told. The updates of that prompt."""
        for number in range(1, 20):
            answer, updates = await self.prompt(session, f"turn {number}: {LONG_TEXT}")
            if answer.stop_reason != "end_turn":
                raise AssertionError(answer)
            if any(update.get("_meta") for update in updates):
                return updates
        raise AssertionError("there was no compaction")

    def write(self, line):
        """Writes to the agent what the SDK would not."""
        self._writer.write(line.encode() + b"\n")

    def kill(self):
        """Ends the agent as `kill -9` does."""
        os.kill(records(self._folder)[-1][0]["pid"], signal.SIGKILL)


class EditorTest(unittest.IsolatedAsyncioTestCase):
    """A store, a model and a project of its own. At the end all messages are checked, and what the model has seen."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data, self.records, self.project = (Path(folder.name) / name for name in ("data", "records", "project"))
        for path in (self.data, self.records, self.project):
            path.mkdir()
        self.model = Model()
        self.addCleanup(self.model.close)

    def tearDown(self):
        schemas = Path(os.environ["ACP_SDK"]) / "schema" / "v1"
        protocol = Protocol(schemas)
        faults = [fault for entries in records(self.records) for fault in protocol.faults(entries)]
        self.assertEqual(faults, [], "\n".join(faults))
        for request in self.model.seen:
            seen = json.dumps(request)
            self.assertNotIn("_meta", seen)
            self.assertNotIn("hermes", seen.lower())
            self.assertNotIn(str(self.project), seen)
            self.assertIsNone(OWN_ID.search(seen), seen)

    async def model_has(self, text):
        """Waits until the model is asked a prompt with this text."""
        await asyncio.to_thread(self.model.wait_for, text)

    def configure_tools(self):
        arguments = [json.dumps(str(argument)) for argument in (sys.executable, MCP_SERVER)]
        self.configure(f"[tools.mcp.sums]\ncommand = {arguments[0]}\nargs = [{arguments[1]}]\n")

    def configure(self, toml):
        (self.data / "herma.toml").write_text(toml)

    @asynccontextmanager
    async def connect(self, window=None):
        """Starts an agent on the store, and connects an editor to it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMA_")}
        settings = {"HERMA_DATA": str(self.data), "HERMA_UPSTREAM": self.model.base_url, "HERMA_MODEL": "scripted"}
        if window:
            settings["HERMA_CONTEXT_WINDOW"] = str(window)
        arguments = [str(HERE / "record.py"), str(self.records), os.environ["HERMA_BIN"], "acp"]
        starting = spawn_stdio_transport(sys.executable, *arguments, env={**kept, **settings}, stderr=None)
        async with starting as (reader, writer, _):
            editor = Editor()
            agent = acp.connect_to_agent(editor, writer, reader)
            connected = Connected(agent, editor, writer, self.records, self.project)
            connected.capabilities = (await agent.initialize(protocol_version=1)).agent_capabilities
            yield connected
            await agent.close()


def provenance(described):
    """Where a session comes from, as an answer, a row or an update says."""
    meta = described["_meta"] if isinstance(described, dict) else described.field_meta
    return meta["hermes"]["sessionProvenance"]


def kinds(updates):
    """The kinds of updates, in order."""
    return [update["sessionUpdate"] for update in updates]


def words(updates, kind="agent_message_chunk"):
    """The text of the chunks of one kind."""
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == kind)
