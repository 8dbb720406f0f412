"""Programs of clients: where the long run installed them, and how a test starts and ends one."""

import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

# Programs look for newer versions of themselves and for models, and send statistics, unless they are told not to.
QUIET = {"DO_NOT_TRACK": "true", "HF_HUB_OFFLINE": "1", "OFFLINE_MODE": "true", "NO_COLOR": "1"}


def program(folder, name):
    """The path of an installed program, such as `program("litellm", "litellm")`."""
    return str(Path(os.environ["CLIENTS_DIR"]) / folder / name)


def environment(home, **settings):
    """The environment of a client that must not read this user's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
    return {**kept, **QUIET, "HOME": str(home), **settings}


def free_port():
    """A port that was free a moment ago, for programs that cannot choose one themselves."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(command, home, said="", **settings):
    """What a program prints that reads `said` and ends well within two minutes."""
    result = subprocess.run(command, cwd=home, env=environment(home, **settings), input=said, capture_output=True,
                            text=True, timeout=120)
    if result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Server:
    """A program that serves HTTP until it is closed. Its output is in `log`."""

    def __init__(self, command, home, settings, ready, seconds=120):
        self.log = Path(home) / "log"
        with self.log.open("w") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self._process = subprocess.Popen(command, cwd=home, env=environment(home, **settings), **streams)
        deadline = time.monotonic() + seconds
        while not _answers(ready):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError(f"{command[0]} did not start:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.2)

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def eventually(what, condition, seconds=60):
    """The first true value of `condition()`. Front ends finish their work after they have answered."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)
    return value


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False
