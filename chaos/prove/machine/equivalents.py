"""The machine's mutants that change no behaviour: a table, with the reason for each.

An entry is an edit as in the other tables, found by its definition and its old lines, so it goes along with the code:
`[[equivalent]]` with `in`, `file`, `old`, `new` and `reason`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.mutant import Edit, Mutant, MutantError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = MUTANTS / "machine" / "equivalent.toml"
_KEYS = {"in", "file", "old", "new", "reason"}


@dataclass(frozen=True)
class Equivalent:
    """One mutant that no check can notice, and why."""

    mutant: Mutant
    reason: str


def read_equivalents(path: Path = TABLE) -> list[Equivalent]:
    """The entries of the table. Raises `MutantError`."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    found = []
    for entry in entries:
        if entry.keys() != _KEYS:
            raise MutantError(f"{path.name}: an entry has {sorted(entry)} and not {sorted(_KEYS)}")
        old, new = tuple(entry["old"].splitlines()), tuple(entry["new"].splitlines())
        edit = Edit(entry["in"], old, new, entry["file"])
        found.append(Equivalent(Mutant(f"{entry['file']} {entry['in']}", (edit,)), entry["reason"]))
    return found


class Equivalents:
    """Which mutants are in the table: those that make the same text of a module."""

    def __init__(self, entries: list[Equivalent], sources: Sources) -> None:
        self._sources = sources
        self._reasons = {self._text(entry.mutant): entry.reason for entry in entries}

    def reason(self, mutant: Mutant) -> str | None:
        """Why the mutant changes nothing; None for one that is not in the table."""
        return self._reasons.get(self._text(mutant))

    def _text(self, mutant: Mutant) -> tuple[tuple[str, str], ...]:
        return tuple(self._sources.changed(mutant).items())
