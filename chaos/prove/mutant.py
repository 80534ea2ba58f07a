"""A mutant as an entry of a table in tests/mutants: which rule it breaks, how, what notices it, and what it changes.

    [[mutant]]
    name = "03-named-branches-swept"
    rule = 3
    defect = "The sweep spares nothing that the pending intent names."
    caught_by = "explorer (durable)"

    [[mutant.edit]]
    in = "AbortRules.sweep"
    old = '''
    if doubt.resource not in spared and self._may_abort(doubt)
    '''
    new = '''
    if self._may_abort(doubt)
    '''

An edit names no line and no module: `anchors.py` finds the definition, so a function takes its mutants along when it
moves. `old` and `new` are whole lines, indented only as they are to each other.
Reads the tables only; `copies.py` makes the changed copy.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES = (*range(1, 19), 20, 23, 24, 25, 28, 29, 30, 31, 32, 33, 34, 35, 38)
"""The rules of the protocol that mutants break."""

_CAUGHT_BY = re.compile(r"(?P<check>[a-z][a-z ]*[a-z]) \((?P<invariant>[\w-]+)\)")
_KEYS = {"name", "rule", "defect", "caught_by", "edit"}
_KEYS_OF_AN_EDIT = {"in", "file", "old", "new"}


class MutantError(Exception):
    """A mutant cannot be tried: its table cannot be read, its old text is not there once, or it is no Python."""


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
class Edit:
    """Whole lines of one definition, and what is there instead of them in the mutant."""

    definition: str
    """The qualified name of a function, a class or a constant, as `AbortRules.sweep`."""
    old: tuple[str, ...]
    """Indented as much as `new` is in relation to it, and otherwise as little as possible."""
    new: tuple[str, ...]
    file: str = ""
    """The end of the module's path, where two definitions of that name have the old text."""


@dataclass(frozen=True)
class Mutant:
    """One mistake. One that is only tried for a moment has neither rule nor defect nor an expected catch."""

    name: str
    edits: tuple[Edit, ...]
    rule: int | None = None
    defect: str = ""
    expected: Catch | None = None


def read_mutants(directory: Path) -> list[Mutant]:
    """All mutants of the tables of a directory, by name. Raises `MutantError`."""
    mutants = [mutant for table in sorted(directory.glob("*.toml")) for mutant in read_table(table)]
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise MutantError(f"more than one mutant has the name {twice[0]}")
    return sorted(mutants, key=lambda mutant: mutant.name)


def read_table(path: Path) -> list[Mutant]:
    """The mutants of one table, in its order. Raises `MutantError`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return [_mutant(entry) for entry in table["mutant"]]
    except KeyError as error:
        raise MutantError(f"{path.name}: an entry has no {error}") from error
    except (tomllib.TOMLDecodeError, MutantError) as error:
        raise MutantError(f"{path.name}: {error}") from error


def _mutant(entry: Mapping[str, Any]) -> Mutant:
    _refuse_other_keys(entry, _KEYS)
    return Mutant(
        entry["name"],
        tuple(_edit(edit) for edit in entry["edit"]),
        entry.get("rule"),
        entry.get("defect", ""),
        Catch.parse(entry.get("caught_by", "")),
    )


def _edit(entry: Mapping[str, Any]) -> Edit:
    _refuse_other_keys(entry, _KEYS_OF_AN_EDIT)
    old, new = entry["old"].splitlines(), entry["new"].splitlines()
    return Edit(entry["in"], tuple(old), tuple(new), entry.get("file", ""))


def _refuse_other_keys(entry: Mapping[str, Any], known: set[str]) -> None:
    if others := sorted(entry.keys() - known):
        raise MutantError(f"unknown key {others[0]!r}; known are {', '.join(sorted(known))}")


def table_of(mutants: Iterable[Mutant]) -> list[str]:
    """The rows of the table in the documents, one mutant each."""
    return [
        f"| `{m.name}` | {m.rule} | {m.defect} | {m.expected.check} | `{m.expected.invariant}` |"
        for m in mutants
        if m.expected is not None
    ]
