"""Finds the code blocks of a Markdown page, and what has to be done with each of them.

A comment that readers do not see may stand before a block:

- `<!-- not run: WHY -->`: the block is not run, and this is the reason.
- `<!-- file: NAME -->`: the block is written to this file, in the directory where commands run.

A comment of several lines whose first is `<!-- hidden` has commands as a block of type `console` has. They prepare what
a page takes for granted, such as a running server.
"""

import re

# Types of blocks whose lines are commands.
COMMANDS = ("console", "sh")
MARK = re.compile(r"<!-- (not run|file): (.+) -->")


class Block:
    """A code block: its type, its lines, the number of the first one, and the comment before it."""

    def __init__(self, type, line, mark=None, value=None):
        self.type, self.line, self.lines, self.mark, self.value = type, line, [], mark, value

    def is_run(self):
        return self.type in COMMANDS and self.mark is None


def blocks(text):
    """All blocks of a page, in order."""
    found, fence, mark = [], None, (None, None)
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line == fence:
                fence = None
            else:
                found[-1].lines.append(line)
        elif line == "<!-- hidden":
            found.append(Block("console", number + 1))
            fence = "-->"
        elif line.startswith("```"):
            found.append(Block(line[3:].strip(), number + 1, *mark))
            fence, mark = "```", (None, None)
        elif comment := MARK.fullmatch(line):
            mark = comment.groups()
        elif line.strip():
            mark = (None, None)
    return found
