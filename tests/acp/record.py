"""Stands between a client and an agent, passes every line on, and writes it down.

    python record.py FOLDER COMMAND...

Each start makes a file in FOLDER. Its lines are JSON: first the process id of the agent, then what was sent, with the
side that sent it. A line is written down before it is passed on.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def main(folder, *command):
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # Records sort by the time of their start.
    handle, _ = tempfile.mkstemp(prefix=f"{time.monotonic_ns():020}-", suffix=".jsonl", dir=folder)
    with os.fdopen(handle, "w") as record:
        lock = threading.Lock()

        def write(entry):
            with lock:
                record.write(json.dumps(entry) + "\n")
                record.flush()

        write({"pid": agent.pid})

        def pass_on(side, source, sink):
            for line in iter(source.readline, b""):
                write({"from": side, "line": line.decode(errors="backslashreplace")})
                try:
                    sink.write(line)
                    sink.flush()
                except OSError:
                    break
            if side == "client":
                agent.stdin.close()

        # A client that stays silent must not keep the recorder alive when its agent has ended.
        threading.Thread(target=pass_on, args=("client", sys.stdin.buffer, agent.stdin), daemon=True).start()
        pass_on("agent", agent.stdout, sys.stdout.buffer)
        status = agent.wait()
    # The other thread may still read stdin, which an orderly exit would wait for.
    os._exit(status if status >= 0 else 128 - status)


def records(folder):
    """What was written down in a folder, one list of entries for each start, in the order of the starts."""
    files = sorted(Path(folder).glob("*.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def messages(entries, side):
    """The messages that one side sent."""
    return [json.loads(entry["line"]) for entry in entries if entry.get("from") == side]


if __name__ == "__main__":
    main(*sys.argv[1:])
