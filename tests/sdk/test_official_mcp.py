"""An MCP server of the official Python SDK, over stdio and over streamable HTTP, behind Herma."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import openai

from gateway import KEY, Gateway

SERVER = pathlib.Path(__file__).parent / "official_mcp_server.py"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until_listening(port):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the MCP server does not listen")


class OfficialServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port = free_port()
        cls.server = subprocess.Popen([sys.executable, str(SERVER), str(port)])
        until_listening(port)
        cls.config = tempfile.NamedTemporaryFile("w", suffix=".toml")
        cls.config.write(
            f"[tools.mcp.child]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(SERVER))}]\n"
            f'approval = "auto"\n[tools.mcp.remote]\nurl = "http://127.0.0.1:{port}/mcp"\napproval = "auto"\n'
        )
        cls.config.flush()
        cls.gateway = Gateway("--config", cls.config.name)
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key=KEY, max_retries=0)
        # The first turn waits a few seconds for the servers, which start with it.
        until = time.monotonic() + 60
        while time.monotonic() < until:
            cls.client.chat.completions.create(model="offline", messages=[{"role": "user", "content": "hello"}])
            listed = cls.client.get("/tools", cast_to=object)["data"]
            if {tool["status"] for tool in listed} == {"ready"}:
                return
            time.sleep(0.2)
        raise AssertionError(f"the servers are not ready: {listed}")

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.gateway.close()
        cls.config.close()
        cls.server.kill()
        cls.server.wait()

    def test_tools_of_the_official_sdk_are_called_over_both_transports(self):
        for label in ("child", "remote"):
            text = f'please call {label}__add {{"a": 20, "b": 22}}'
            answer = self.client.responses.create(model="offline", input=text)
            call = answer.output[0]
            self.assertEqual((call.type, call.server_label, call.output), ("mcp_call", label, "42"), answer.output)

    def test_an_error_of_a_tool_is_an_error_of_its_item(self):
        answer = self.client.responses.create(model="offline", input="please call child__fail {}")
        call = answer.output[0]
        self.assertEqual((call.type, call.status), ("mcp_call", "failed"))
        self.assertIn("fail", str(call.error))


if __name__ == "__main__":
    unittest.main()
