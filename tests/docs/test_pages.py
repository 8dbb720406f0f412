"""Every command of every page runs as it is written, or a comment says why it does not. Every shown configuration is
one. Every page is in the book, every route has an example."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest
from pathlib import Path

from blocks import blocks
from transcripts import Shell, commands

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "reference" / "EXAMPLES.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
BINARY = Path(os.environ["HERMA_BIN"]).resolve()


def hermes_database(home):
    """A small database of Hermes, where the guide looks for it."""
    (home / ".hermes").mkdir()
    database = sqlite3.connect(home / ".hermes" / "state.db")
    database.executescript(Path(__file__).with_name("hermes.sql").read_text())
    database.close()


def page_test(page):
    def run(self):
        found = commands(page.relative_to(ROOT), page.read_text())
        shell = Shell(BINARY)
        self.addCleanup(shell.close)
        hermes_database(shell.home)
        for command in found:
            complaint = shell.run(command)
            if complaint:
                self.fail("\n" + complaint)

    return run


class Commands(unittest.TestCase):
    """One test a page."""

    @classmethod
    def setUpClass(cls):
        missing = [program for program in ("bash", "curl", "jq") if not shutil.which(program)]
        assert not missing, f"the pages need {missing}"


for page in filter(lambda page: commands(page, page.read_text()), PAGES):
    name = re.sub(r"\W+", "_", str(page.relative_to(ROOT).with_suffix(""))).lower()
    setattr(Commands, f"test_{name}", page_test(page))


class Blocks(unittest.TestCase):
    def test_every_block_has_a_type_so_that_no_command_hides_in_one(self):
        untyped = [f"{page.relative_to(ROOT)}:{block.line}" for page in PAGES for block in blocks(page.read_text())
                   if not block.type]
        self.assertEqual(untyped, [])

    def test_every_configuration_is_one(self):
        for page in PAGES:
            for block in blocks(page.read_text()):
                if block.type == "toml" and block.mark != "not run":
                    with self.subTest(f"{page.relative_to(ROOT)}:{block.line}"), tempfile.TemporaryDirectory() as home:
                        file = Path(home, "herma.toml")
                        file.write_text("\n".join(block.lines))
                        read = subprocess.run([BINARY, "config", "--config", file], capture_output=True, text=True,
                                              env={"HOME": home})
                        self.assertEqual(read.returncode, 0, read.stderr)


class Book(unittest.TestCase):
    def test_every_page_of_the_documents_is_in_the_summary(self):
        summary = (DOCS / "SUMMARY.md").read_text()
        listed = set(re.findall(r"\]\(([^)]+\.md)\)", summary))
        there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"SUMMARY.md"}
        self.assertEqual(listed, there)

    def test_every_route_has_an_example(self):
        openapi = json.loads((ROOT / "crates/http/src/openapi.json").read_text())
        routes = {f"{method.upper()} {path}" for path, methods in openapi["paths"].items() for method in methods}
        examples = re.findall(r"^### `(.+)`\n\n(?:[^`#].*\n\n)?```console$", EXAMPLES.read_text(), re.MULTILINE)
        self.assertEqual(routes, set(examples))


class Transcripts(unittest.TestCase):
    """The runner itself notices what it has to notice."""

    def complaint(self, text):
        shell = Shell(BINARY)
        self.addCleanup(shell.close)
        return next(filter(None, map(shell.run, commands("page.md", text))), None)

    def test_what_is_shown_must_be_printed(self):
        for text, fine in [
            ("```console\n$ echo a; echo b\na\nb\n```", True),
            ("```console\n$ echo a; echo b\na\n```", False),
            ("```console\n$ echo a; echo b\n…\nb\n```", True),
            ("```console\n$ echo a; echo b\n…b…\n```", False),
            ("```console\n$ echo id_123 now\nid_… now\n```", True),
            ("```console\n$ A=1\n$ echo $A\n1\n\n$ echo \\\n  two\ntwo\n```", True),
            ("```console\n$ cat <<'END'\n$ no command\nEND\n…no command\n```", True),
            ("```console\n$ false\n```", False),
            ("```console\n$ herma no-such-command\n```", False),
            ("```console\n$ (sleep 0.1; echo late) &\nlate\n```", True),
            ("```sh\ntrue\nfalse\n```", False),
            ("```sh\necho a \\\n  b # that's it\n```", True),
            ("<!-- not run: it fails -->\n\n```sh\nfalse\n```", True),
            ("<!-- not run: it fails -->\n\nNot this one:\n\n```sh\nfalse\n```", False),
            ("<!-- hidden\n$ A=1\n-->\n\n```console\n$ echo $A\n1\n```", True),
            ("<!-- file: a.txt -->\n\n```text\nA\n```\n\n```console\n$ cat a.txt\nA\n```", True),
            ("```console\n$ echo '{\"id\":\"conv_12ab34cd\",\"n\":1}'\n{\"id\":\"conv_01a1…\",\n \"n\":1}\n```", True),
            ("```console\n$ echo '{\"id\":\"conv_12ab34cd\",\"n\":1}'\n{\"id\":\"conv_01a1…\",\n \"n\":2}\n```", False),
        ]:
            self.assertEqual(self.complaint(text) is None, fine, text)


if __name__ == "__main__":
    unittest.main()
