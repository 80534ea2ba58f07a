"""The machine's mutants of a checkout: each change as an edit of the one definition that it is in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.machine.operators import Change, changes
from tpc.chaos.prove.machine.rooms import ROOMS, files_of
from tpc.chaos.prove.mutant import Edit, Mutant, MutantError


@dataclass(frozen=True)
class Made:
    """A mutant of the machine, and where it is."""

    room: str
    file: str
    line: int
    operator: str
    mutant: Mutant

    def told(self) -> str:
        """The place and the difference, in lines."""
        return f"{self.file}:{self.line} {self._difference()}"

    @property
    def key(self) -> str:
        """What stays the same when lines are put before its definition."""
        return f"{self.file} {self._difference()}"

    def _difference(self) -> str:
        (edit,) = self.mutant.edits
        old, new = ([f"{sign} {line}" for line in lines] for sign, lines in (("-", edit.old), ("+", edit.new)))
        return "\n".join([f"in {edit.definition}: {self.operator}", *old, *new])


def all_changes(room: str, sources: Sources) -> list[tuple[str, Change]]:
    """Every change that the machine can make in a room: the module and the change."""
    files = files_of(room, sources.files)
    return [(file, change) for file in files for change in changes(sources.text(file), sources.tree(file))]


def drawn(seed: int, count: int, sources: Sources, rooms: tuple[str, ...] = tuple(ROOMS)) -> list[Made]:
    """`count` mutants, as many of one room as of another as long as there are some; the same for the same seed."""
    piles = []
    for room in rooms:
        pile = all_changes(room, sources)
        random.Random(f"{seed} {room}").shuffle(pile)
        piles.append((room, pile))
    taken: dict[Edit, Made] = {}
    while len(taken) < count and any(pile for _, pile in piles):
        for room, pile in piles:
            while pile:
                file, change = pile.pop()
                edit = _edit_of(file, change, sources)
                if edit is not None and edit not in taken:
                    mutant = Mutant(f"{file}:{change.first} {change.operator}", (edit,))
                    taken[edit] = Made(room, file, change.first, change.operator, mutant)
                    break
    return list(taken.values())[:count]


def _edit_of(file: str, change: Change, sources: Sources) -> Edit | None:
    """With as many lines around as it takes to be in one place; None for what would be no Python, or nothing new."""
    lines = sources.text(file).splitlines()
    for definition, top, bottom in _around(change, file, sources):
        for more in range(8):
            first, last = max(top, change.first - more), min(bottom, change.last + more)
            before, after = lines[first - 1 : change.first - 1], lines[change.last : last]
            old = lines[first - 1 : last]
            new = [*before, *change.new, *after]
            edit = Edit(definition, *_without_margin(old, new), file)
            try:
                sources.changed(Mutant("", (edit,)))
            except MutantError as error:
                if "times in" not in str(error):
                    return None
            else:
                return edit
    return None


def _around(change: Change, file: str, sources: Sources) -> Iterator[tuple[str, int, int]]:
    """The innermost definition with the change, which has a name of its own."""
    found = [
        (last - first, name, first, last)
        for name, places in sources.definitions(file).items()
        for first, last in places
        if first <= change.first and change.last <= last
    ]
    for _, name, first, last in sorted(found)[:1]:
        yield name, first, last


def _without_margin(old: list[str], new: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    margin = min(len(line) - len(line.lstrip(" ")) for line in (*old, *new) if line.strip())
    return tuple(line[margin:] for line in old), tuple(line[margin:] for line in new)
