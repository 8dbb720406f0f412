"""Sentences of the pages have at most 25 words. Pages under `docs/reference` are made from the code, so they do not
count. Neither do code blocks, comments and headings.

A paragraph, an item of a list and a cell of a table are texts of their own: no sentence goes on in the next one. What
stands in backticks is one word. A link is its text. A colon or a semicolon ends no sentence.
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md",
         *(page for page in sorted(DOCS.rglob("*.md")) if page.parent != DOCS / "reference")]
MOST_WORDS = 25
ITEM = re.compile(r"(?:[-*+]|\d+[.)]) ")
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
# After the end of a sentence and what closes with it. An abbreviation ends no sentence.
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][)\"”]))(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.) ")


def texts(page):
    """The texts of a page, each with the number of its first line."""
    found, skipped_until, goes_on = [], None, False
    for number, line in enumerate(page.splitlines(), 1):
        line = line.strip()
        if skipped_until:
            skipped_until = None if line.endswith(skipped_until) else skipped_until
            continue
        is_prose = False
        if line.startswith("```"):
            skipped_until = "```"
        elif line.startswith("<!--"):
            skipped_until = None if line.endswith("-->") else "-->"
        elif line.startswith("|"):
            found.extend((number, cell.strip()) for cell in line.split("|"))
        elif line and not line.startswith("#"):
            is_prose = True
            if goes_on and not ITEM.match(line):
                first, text = found.pop()
                found.append((first, f"{text} {line}"))
            else:
                found.append((number, ITEM.sub("", line, count=1) if ITEM.match(line) else line))
        goes_on = is_prose
    return found


def sentences(text):
    """The sentences of a text. What stands in backticks has no spaces in them, so it is not split."""
    text = LINK.sub(r"\1", text).replace("*", "")
    text = CODE.sub(lambda code: re.sub(r"\s", "_", code[0]), text)
    return [sentence for sentence in END.split(text.strip()) if words(sentence)]


def words(sentence):
    """How many words a sentence has. A dash or an arrow between them is none."""
    return sum(1 for word in sentence.split() if re.search(r"[\w`]", word))


class Sentences(unittest.TestCase):
    def test_no_sentence_of_the_pages_is_too_long(self):
        for page in PAGES:
            for line, text in texts(page.read_text()):
                for sentence in sentences(text):
                    with self.subTest(f"{page.relative_to(ROOT)}:{line}"):
                        self.assertLessEqual(words(sentence), MOST_WORDS, sentence)


class Splitter(unittest.TestCase):
    """What the pages are split with finds what it has to find."""

    def test_a_page_is_split_into_texts(self):
        for page, found in [
            ("# Heading\n\nOne\ntwo.\n\nThree.", ["One two.", "Three."]),
            ("Before:\n- one\n  goes on\n- two\n  1. three\n\n  Its second paragraph.",
             ["Before:", "one goes on", "two", "three", "Its second paragraph."]),
            ("| a | b |\n|---|:---|\n| one | two |", ["a", "b", "one", "two"]),
            ("Before:\n```sh\n# code\n```\nAfter.", ["Before:", "After."]),
            ("<!-- one -->\n\n<!-- hidden\n$ true\n-->\n\nAfter.", ["After."]),
        ]:
            self.assertEqual([text for _, text in texts(page) if sentences(text)], found, page)

    def test_a_text_is_said_with_its_first_line(self):
        self.assertEqual(texts("# Heading\n\nOne\ntwo.\n\nThree."), [(3, "One two."), (6, "Three.")])

    def test_a_text_is_split_into_sentences(self):
        for text, found in [
            ("One. Two? Three! Four", ["One.", "Two?", "Three!", "Four"]),
            ("**One.** Two (three). (Four.) five: six; `a. b.` \"Seven.\" Eight",
             ["One.", "Two (three).", "(Four.)", "five: six; `a._b.` \"Seven.\"", "Eight"]),
            ("Tools, e.g. `a`, i.e. version 1.2.0. Two.", ["Tools, e.g. `a`, i.e. version 1.2.0.", "Two."]),
            ("[One. Two](a.md#b) three.", ["One.", "Two three."]),
        ]:
            self.assertEqual(sentences(text), found, text)

    def test_words_are_counted(self):
        for sentence, count in [
            ("One two, three.", 3),
            ("One `herma config --all` two [three four](a.md).", 5),
            ("One – two → three / four", 4),
            ("`…` is text", 3),
        ]:
            self.assertEqual(sum(map(words, sentences(sentence))), count, sentence)

    def test_a_sentence_that_is_too_long_is_seen(self):
        long = " ".join(["word"] * (MOST_WORDS + 1)) + "."
        for page in (f"Short. {long} Short.", f"- {long}", f"| {long} | short |", long.replace(" ", "\n")):
            counted = [words(sentence) for _, text in texts(page) for sentence in sentences(text)]
            self.assertEqual(max(counted), MOST_WORDS + 1, page)


if __name__ == "__main__":
    unittest.main()
