"""acpx, a client of the Agent Client Protocol in the terminal: it starts a new agent for each command."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import record
from programs import environment, eventually, program
from protocol import Protocol
from scripted_model import Model

# An MCP server with a tool that adds two numbers, and that asks.
MCP_SERVER = Path(record.__file__).parent.parent / "sdk" / "official_mcp_server.py"
LONG_TEXT = "all work and no play makes a long conversation " * 12


class Acpx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        names = ("home", "project", "data", "records")
        self.home, self.project, self.data, self.records = (Path(folder.name) / name for name in names)
        for path in (self.home, self.project, self.data, self.records):
            path.mkdir()
        self.model = Model()
        self.addCleanup(self.model.close)
        settings = {"HERMA_DATA": str(self.data), "HERMA_UPSTREAM": self.model.base_url, "HERMA_MODEL": "scripted",
                    "HERMA_CONTEXT_WINDOW": "1200"}
        self.environment = environment(self.home, **settings)

    def tearDown(self):
        # The process that keeps a session for later commands ends by itself, soon after the last of them.
        eventually("acpx ends", lambda: not list((self.home / ".acpx" / "queues").glob("*.lock")))
        protocol = Protocol(Path(os.environ["ACP_SDK"]) / "schema" / "v1")
        faults = [fault for entries in record.records(self.records) for fault in protocol.faults(entries)]
        self.assertEqual(faults, [], "\n".join(faults))
        self.assertNotIn("_meta", json.dumps(self.model.seen))

    def start(self, *arguments, ttl=1):
        agent = [sys.executable, record.__file__, self.records, os.environ["HERMA_BIN"], "acp"]
        command = [program("node/node_modules/.bin", "acpx"), "--agent", " ".join(map(str, agent))]
        options = ["--format", "json", "--ttl", str(ttl), "--cwd", str(self.project)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*command, *options, *arguments], env=self.environment, **streams)

    def end(self, process):
        """The lines of JSON that a command has printed, and its status."""
        said, complaints = process.communicate(timeout=120)
        try:
            return [json.loads(line) for line in said.splitlines()], process.returncode
        except ValueError:
            self.fail(f"{said}\n{complaints}")

    def acpx(self, *arguments, **options):
        lines, status = self.end(self.start(*arguments, **options))
        self.assertEqual(status, 0, lines)
        return lines

    def prompt(self, text, **options):
        """The updates and the answer of a prompt."""
        lines = self.acpx("prompt", text, **options)
        answers = [line["result"] for line in lines if "stopReason" in (line.get("result") or ())]
        self.assertEqual(len(answers), 1, lines)
        return [line["params"]["update"] for line in lines if line.get("method") == "session/update"], answers[0]

    def until_compacted(self, **options):
        for number in range(1, 20):
            updates, answer = self.prompt(f"turn {number}: {LONG_TEXT}", **options)
            self.assertEqual(answer["stopReason"], "end_turn")
            told = [update for update in updates if "_meta" in update]
            if told:
                self.assertEqual([update["sessionUpdate"] for update in told], ["session_info_update"])
                return provenance(told[0])
        raise AssertionError("there was no compaction")

    def rows(self):
        return self.acpx("sessions", "list")[0]["sessions"]

    def test_a_session_goes_on_in_new_agents_and_nothing_is_told_of_compactions(self):
        session = self.acpx("sessions", "new")[0]["acpxSessionId"]
        for text in ("one", "two"):
            updates, answer = self.prompt(text)
            self.assertEqual(answer["stopReason"], "end_turn")
            self.assertEqual([update for update in updates if "_meta" in update], [])
        self.assertEqual(len(self.model.shown()[-1]), 3, "the second agent has the whole conversation")
        [row] = self.rows()
        self.assertEqual((row["sessionId"], row["title"], row["cwd"]), (session, "one", str(self.project)))
        self.assertEqual((provenance(row)["compactionCount"], provenance(row)["creatorKind"]), (0, "acp"))

    def test_a_split_is_listed_as_it_was_told_and_the_session_goes_on_behind_it(self):
        session = self.acpx("sessions", "new")[0]["acpxSessionId"]
        moved = self.until_compacted()
        self.assertEqual((moved["acpSessionId"], moved["compressionDepth"]), (session, 1))
        [row] = self.rows()
        self.assertEqual((row["sessionId"], provenance(row)), (session, moved))
        self.assertEqual(self.prompt("and now?")[1]["stopReason"], "end_turn")
        # The id of the session that the split has ended leads to the new one.
        older = moved["previousHermesSessionId"]
        self.acpx("sessions", "new", "--name", "older", "--resume-session", older)
        self.prompt_named("older", "and here?")
        self.assertIn("and now?", json.dumps(self.model.shown()[-1]))

    def prompt_named(self, name, text):
        self.acpx("prompt", "--session", name, text)

    def test_an_agent_that_is_killed_after_a_split_is_replaced(self):
        self.acpx("sessions", "new")
        moved = self.until_compacted(ttl=5)
        os.kill(record.records(self.records)[-1][0]["pid"], signal.SIGKILL)
        self.assertEqual(self.prompt("and now?", ttl=1)[1]["stopReason"], "end_turn")
        [row] = self.rows()
        self.assertEqual(provenance(row), moved)
        self.assertNotIn("turn 1:", json.dumps(self.model.shown()[-1]), "the model has the summary in its place")

    def test_prompts_wait_for_each_other_and_a_cancel_ends_the_running_one(self):
        self.acpx("sessions", "new")
        running = self.start("prompt", "one [hold]")
        self.model.wait_for("one")
        self.acpx("prompt", "--no-wait", "two")
        self.acpx("cancel")
        lines, _ = self.end(running)
        self.assertIn({"stopReason": "cancelled"}, [line.get("result") for line in lines])
        self.model.release()
        self.model.wait_for("two")
        self.assertEqual(self.prompt("three")[1]["stopReason"], "end_turn")

    def test_modes_and_models_are_kept(self):
        self.acpx("sessions", "new")
        self.acpx("set-mode", "read_only")
        self.acpx("set", "model", "scripted")
        self.prompt("one")
        resumed = [message["result"] for entries in record.records(self.records)
                   for message in record.messages(entries, "agent") if "modes" in (message.get("result") or ())]
        self.assertEqual(resumed[-1]["modes"]["currentModeId"], "read_only")
        self.assertEqual(resumed[-1]["configOptions"][0]["currentValue"], "scripted")

    def test_a_tool_is_called_only_if_the_person_allows_it(self):
        arguments = [json.dumps(str(argument)) for argument in (sys.executable, MCP_SERVER)]
        config = f"[tools.mcp.sums]\ncommand = {arguments[0]}\nargs = [{arguments[1]}]\n"
        (self.data / "herma.toml").write_text(config)
        self.acpx("sessions", "new")
        for option, text in (("--deny-all", "denied"), ("--approve-all", "42")):
            # acpx says with its status that all questions were denied.
            lines, _ = self.end(self.start(option, "prompt", 'use sums__add {"a": 20, "b": 22}'))
            asked = [line for line in lines if line.get("method") == "session/request_permission"]
            self.assertEqual(len(asked), 1)
            self.assertIn(text, self.model.shown()[-1][-1]["content"])

    def test_files_and_commands_of_the_project_are_tools(self):
        (self.project / "a.txt").write_text("before")
        self.acpx("sessions", "new")
        for call, result in (
            ('editor__read_text_file {"path": "a.txt"}', "before"),
            ('editor__write_text_file {"path": "a.txt", "content": "after"}', ""),
            ('editor__terminal {"command": "cat", "args": ["a.txt"]}', "after"),
        ):
            self.acpx("--approve-all", "prompt", f"use {call}")
            last = self.model.shown()[-1][-1]
            self.assertEqual(last["role"], "tool")
            self.assertIn(result, last["content"])
        self.assertEqual((self.project / "a.txt").read_text(), "after")

    def test_what_is_not_known_is_refused_with_the_codes_of_the_protocol(self):
        for arguments, code in (
            (("sessions", "new", "--resume-session", "nobody"), -32002),
            (("sessions", "list", "--cursor", "nothing"), -32602),
        ):
            lines, status = self.end(self.start(*arguments))
            self.assertNotEqual(status, 0)
            self.assertEqual([line["error"]["code"] for line in lines if "error" in line], [code])


def provenance(described):
    return described["_meta"]["hermes"]["sessionProvenance"]
