"""Runs the `console` blocks of a Markdown page as a reader would type them, and compares what they print.

A line that begins with `$ ` is a command. It goes on in the next line if it ends with a backslash, and up to the line
`END` if it has a here-document of that name. The lines after it are what it prints. A line that is only `…` stands for
any lines, and `…` in a line for any text. A command without such lines may print anything.

All commands of a page run in one shell, in an empty home. A command that ends with `&` may still be printing: the
runner waits until it has printed what the page shows. The port of the page is replaced by a free one.
"""

import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PORT = "8642"
PATIENCE = 60


class Command:
    def __init__(self, page, line, text):
        self.page, self.line, self.text, self.shown = page, line, text, []

    def __str__(self):
        return f"{self.page}:{self.line}: $ {self.text}"

    def in_background(self):
        return self.text.rstrip().endswith("&")

    def may_fail(self):
        return any(line.startswith("error:") for line in self.shown)

    def pattern(self, port):
        lines = []
        for line in self.shown:
            if line.strip() == "…":
                lines.append(r"(?:.*\n)*?")
            else:
                parts = [re.escape(part) for part in line.rstrip().replace(PORT, port).split("…")]
                lines.append(".*".join(parts) + r"[ \t]*\n")
        return re.compile("".join(lines) + r"\s*")

    def prints(self, output, port):
        """Whether this output is what the page shows. A program in the background may print more after it."""
        pattern, output = self.pattern(port), output + "\n"
        return pattern.match(output) if self.in_background() else pattern.fullmatch(output)


def commands(page, text):
    """The commands of all `console` blocks, in order."""
    found, fence, open_command, here_document = [], None, False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = line[3:].strip() if fence is None else None
            open_command = here_document = False
        elif fence != "console":
            continue
        elif open_command:
            found[-1].text += "\n" + line
            here_document = here_document and line != "END"
            open_command = here_document or (not line == "END" and line.endswith("\\"))
        elif line.startswith("$ "):
            found.append(Command(page, number, line[2:]))
            here_document = "<<'END'" in line or "<<END" in line
            open_command = here_document or line.endswith("\\")
        elif found:
            found[-1].shown.append(line)
    for command in found:
        while command.shown and not command.shown[-1].strip():
            command.shown.pop()
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Shell:
    """A shell in an empty home, with `herma` on its path."""

    def __init__(self, binary):
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
            "HERMA_LISTEN": f"127.0.0.1:{self.port}",
        }
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=self.home, env=environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        self._count = 0

    def run(self, command):
        """Runs a command. Returns what is wrong with it, or nothing."""
        self._count += 1
        script, output = self._notes / f"{self._count}.sh", self._notes / f"{self._count}.out"
        script.write_text(command.text.replace(PORT, self.port) + "\n")
        self._process.stdin.write(f'eval "$(cat {script})" </dev/null >{output} 2>&1; echo $?\n')
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        printed = output.read_text
        if command.in_background():
            deadline = time.monotonic() + PATIENCE
            while command.shown and not command.prints(printed(), self.port) and time.monotonic() < deadline:
                time.sleep(0.02)
        elif status != "0" and not command.may_fail():
            return f"{command}\nended with status {status or 'of a shell that ended'}:\n{printed()}"
        if command.shown and not command.prints(printed(), self.port):
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
        self._directory.cleanup()
