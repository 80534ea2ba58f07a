"""A mutant as a file: a unified diff with a header that says which rule it breaks, how, and what notices it.

    Rule: 3
    Defect: The sweep spares nothing that the pending intent names.
    Caught by: explorer (durable)

    diff --git a/tpc/sweeping.py b/tpc/sweeping.py
    ...

Reads the file only; `copies.py` applies it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RULES = (*range(1, 19), 20, 23, 24, 25, 38)
"""The rules of the protocol that mutants break."""

_CAUGHT_BY = re.compile(r"(?P<check>[a-z][a-z ]*[a-z]) \((?P<invariant>[\w-]+)\)")


class PatchError(Exception):
    """A patch cannot be tried: it does not apply, changes nothing, or touches what it must not."""


@dataclass(frozen=True)
class Catch:
    """Who notices a mutant: a check, and the invariant it then names."""

    check: str
    invariant: str

    def __str__(self) -> str:
        return f"{self.check} ({self.invariant})"

    @classmethod
    def parse(cls, text: str) -> Catch | None:
        """The inverse of `str`; None for other text."""
        match = _CAUGHT_BY.fullmatch(text.strip())
        return None if match is None else cls(match["check"], match["invariant"])


@dataclass(frozen=True)
class Mutant:
    """A patch with its header; a patch without one has neither rule nor defect nor an expected catch."""

    path: Path
    text: str
    rule: int | None
    defect: str
    expected: Catch | None

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the diff changes, as paths below the checkout."""
        return tuple(dict.fromkeys(re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", self.text, re.MULTILINE)))


def read_mutant(path: Path) -> Mutant:
    """The mutant in a file."""
    text = path.read_text(encoding="utf-8")
    header = re.split(r"^(?:diff |--- )", text, maxsplit=1, flags=re.MULTILINE)[0]
    fields = dict(re.findall(r"^(Rule|Defect|Caught by): (.+)$", header, re.MULTILINE))
    rule = fields.get("Rule", "")
    return Mutant(
        path,
        text,
        int(rule) if rule.isdecimal() else None,
        fields.get("Defect", ""),
        Catch.parse(fields.get("Caught by", "")),
    )


def read_mutants(directory: Path) -> list[Mutant]:
    """All mutants of a directory, by name."""
    return [read_mutant(path) for path in sorted(directory.glob("*.patch"))]


def table_of(mutants: Iterable[Mutant]) -> list[str]:
    """The rows of the table in the documents, one mutant each."""
    return [
        f"| `{m.name}` | {m.rule} | {m.defect} | {m.expected.check} | `{m.expected.invariant}` |"
        for m in mutants
        if m.expected is not None
    ]
