"""The Python example of the README runs as it is written."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from gateway import KEY, Gateway

README = Path(__file__).resolve().parents[2] / "README.md"


class Readme(unittest.TestCase):
    def test_the_example_continues_the_named_conversation(self):
        (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        gateway = Gateway()
        self.addCleanup(gateway.close)
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        key = Path(home.name, ".local/share/herma/api-key")
        key.parent.mkdir(parents=True)
        key.write_text(KEY + "\n")
        here, printed = {}, io.StringIO()
        with mock.patch.dict(os.environ, {"HOME": home.name}), contextlib.redirect_stdout(printed):
            exec(example.replace("http://127.0.0.1:8642/v1", gateway.base_url), here)
        self.assertIn("You said: And in July?", printed.getvalue())
        self.addCleanup(here["client"].close)
        asked = here["client"].chat.completions.create(
            model="default", messages=[{"role": "user", "content": "What did I say?"}]
        )
        self.assertIn("And in July?", asked.choices[0].message.content)


if __name__ == "__main__":
    unittest.main()
