"""What the pages of docs tell people to type, so that tests do exactly that."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language in a page of docs."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def sql_statements(page: str) -> list[str]:
    """Every SQL statement of a page, in order."""
    return [text.strip() for block in blocks(page, "sql") for text in re.split(r";\s*\n", block) if text.strip()]


def shell_commands(page: str, program: str) -> list[list[list[str]]]:
    """Per block of a page its commands of `program`, as words without the program; blocks without any are left out."""
    lines = [[line[2:] for line in block.splitlines() if line.startswith("$ ")] for block in blocks(page, "console")]
    found = [[shlex.split(line)[1:] for line in block if line.split()[0] == program] for block in lines]
    return [block for block in found if block]
