"""Runs the commands of a Markdown page as a reader would type them, and compares what they print.

In a block of type `console`, a line that begins with `$ ` is a command. It goes on in the next line if it ends with a
backslash or inside quotes, and up to the line `END` if it has a here-document of that name. The lines after it are what
it prints. A line that is only `…` stands for any lines, and `…` in a line for any text. A command without such lines
may print anything. In a block of type `sh` every line is a command, and nothing is shown.

Pages break long JSON for reading. So white space does not count in what looks like JSON or like a stream of it, and
there an id may end with `…` after a few digits. A time is any time.

All commands of a page run in one shell, in an empty home. `DOCS` is the directory of the pages. A command that ends
with `&` may still be printing: the runner waits until it has printed what the page shows. The port of the page is
replaced by a free one, and the addresses of model servers by that of a scripted one.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from blocks import blocks
from model_server import ModelServer

DOCS = Path(__file__).resolve().parents[2] / "docs"
PORT = "8642"
# Model servers of the pages. A scripted one stands for all of them.
MODEL_SERVERS = re.compile(
    r"http://localhost:11434|http://(?:localhost|127\.0\.0\.1):8080|http://gpu:8000|https://api\.openai\.com"
    r"|https://RESOURCE\.openai\.azure\.com"
)
PATIENCE = 60
# How text begins in which white space does not count.
JSON = re.compile(r"[{\[]|data: |event: |id: |HTTP/")
# In the text of a page: an id of which some digits are shown, and times.
ID = re.compile(r"(?<=[_-])[0-9a-f]{2,}…|\b1a1[0-9a-f]{8}-…")
TIME = re.compile(r"\b1[789]\d{8}\b|\d{4}-\d\d-\d\dT[\d:.]+Z")


class Command:
    def __init__(self, page, line, text):
        self.page, self.line, self.text, self.shown = page, line, text, []

    def __str__(self):
        return f"{self.page}:{self.line}: $ {self.text}"

    def in_background(self):
        return self.text.rstrip().endswith("&")

    def may_fail(self):
        return any(line.startswith("error:") for line in self.shown)

    def pattern(self, shown):
        lines = []
        for line in shown:
            if line.strip() == "…":
                lines.append(r"(?:.*\n)*?")
            else:
                parts = [re.escape(part) for part in line.rstrip().split("…")]
                lines.append(".*".join(parts) + r"[ \t]*\n")
        return re.compile("".join(lines) + r"\s*")

    def json_pattern(self, shown):
        shown = TIME.sub("…", ID.sub("…", "".join(shown)))
        parts = [re.escape(part) for part in re.sub(r"\s", "", shown).split("…")]
        return re.compile(".*".join(parts), re.DOTALL)

    def prints(self, output, here):
        """Whether this output is what the page shows. A program in the background may print more after it. `here` puts
        the addresses of this test in place of those of the page."""
        shown = [here(line) for line in self.shown]
        is_json = JSON.match(shown[0]) is not None
        pattern = self.json_pattern(shown) if is_json else self.pattern(shown)
        output = re.sub(r"\s", "", output) if is_json else output + "\n"
        return pattern.match(output) if self.in_background() else pattern.fullmatch(output)


def is_open(text):
    """Whether a command goes on in the next line."""
    if re.search(r"<<'?END'?", text):
        return not text.endswith("\nEND")
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def commands(page, text):
    """The commands of all blocks that are run, in order. A file that a page shows is a command that writes it."""
    found = []
    for block in blocks(text):
        if block.mark == "file":
            content = "\n".join(block.lines)
            found.append(Command(page, block.line, f"cat > {block.value} <<'END'\n{content}\nEND"))
        elif block.is_run():
            found.extend(commands_of(page, block))
    return found


def commands_of(page, block):
    found, open_command = [], False
    for number, line in enumerate(block.lines, block.line):
        if open_command:
            found[-1].text += "\n" + line
        elif line.startswith("$ ") if block.type == "console" else line.strip():
            found.append(Command(page, number, line.removeprefix("$ ")))
        elif found and block.type == "console":
            found[-1].shown.append(line)
            continue
        else:
            continue
        open_command = is_open(found[-1].text)
    for command in found:
        while command.shown and not command.shown[-1].strip():
            command.shown.pop()
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Shell:
    """A shell in an empty home, with `herma` on its path and a scripted model server."""

    def __init__(self, binary):
        self._model = ModelServer()
        self._directory = tempfile.TemporaryDirectory(prefix="herma-docs-")
        self.home = Path(self._directory.name, "home")
        self._notes = Path(self._directory.name, "notes")
        self.home.mkdir()
        self._notes.mkdir()
        bin_directory = Path(self._directory.name, "bin")
        bin_directory.mkdir()
        (bin_directory / "herma").symlink_to(binary)
        self.port = free_port()
        environment = {
            "HOME": str(self.home),
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "DOCS": str(DOCS),
            "HERMA_LISTEN": f"127.0.0.1:{self.port}",
        }
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=self.home, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        self._count = 0

    def here(self, text):
        """Text of a page with the addresses of this test."""
        model_server = self._model.base_url.removesuffix("/v1")
        return MODEL_SERVERS.sub(model_server, text).replace(PORT, self.port)

    def run(self, command):
        """Runs a command. Returns what is wrong with it, or nothing."""
        self._count += 1
        script, output = self._notes / f"{self._count}.sh", self._notes / f"{self._count}.out"
        script.write_text(self.here(command.text) + "\n")
        self._process.stdin.write(f'eval "$(cat {script})" </dev/null >{output} 2>&1; echo $?\n')
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        printed = output.read_text
        if command.in_background():
            deadline = time.monotonic() + PATIENCE
            while command.shown and not command.prints(printed(), self.here) and time.monotonic() < deadline:
                time.sleep(0.02)
        elif status != "0" and not command.may_fail():
            return f"{command}\nended with status {status or 'of a shell that ended'}:\n{printed()}"
        if command.shown and not command.prints(printed(), self.here):
            return f"{command}\nthe page shows:\n{chr(10).join(command.shown)}\nit printed:\n{printed()}"
        return None

    def close(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._model.close()
        self._directory.cleanup()
