"""How the tables of the matrix are read: which faults are tried at which steps of a pipeline, and why not the others.

A row is a step, a column a kind of fault. In a field stand the sinks it is tried with, by letter, or `*` for a step
that belongs to no sink, or the records of the log it is tried with (`RECORDS`). A capital, or `#`, marks a case of the
core. A field that begins with `-` is blank, and names its reason; a sink that is missing in a field is blank for the
reason that the table's `reason_of` gives, which is told what stands after the `-` at the field's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tpc.chaos.faults.fault import ERROR, EXIT, HANG, KILL, KILL_DRIVER, REPLY_LOST, ZOMBIE

RECORDS: Mapping[str, str] = {"i": "intent", "c": "complete", "g": "generation"}
COLUMNS = (KILL, KILL_DRIVER, EXIT, ERROR, HANG, REPLY_LOST, ZOMBIE)
OF_SINKS = ("pass.", "sink.", "state.")
"""How the steps of a sink begin."""

ReasonOf = Callable[[str, str, str, str, set[str]], str]
"""Why a sink is not tried: its step, fault and sink, what stands after the field's `-`, and the sinks tried there."""


@dataclass(frozen=True)
class Cell:
    """One thing that is tried. `record`: the kind of log record, at the steps of the log."""

    step: str
    fault: str
    sink: str | None = None
    record: str | None = None
    core: bool = False


@dataclass(frozen=True)
class Blank:
    """One thing that is not tried, and why."""

    step: str
    fault: str
    sink: str | None
    reason: str

    def to_json(self) -> dict[str, str | None]:
        """How cases.json names it."""
        return {"step": self.step, "fault": self.fault, "sink": self.sink, "reason": self.reason}


@dataclass(frozen=True)
class CellTable:
    """A table as text, with what its letters and its reasons mean."""

    text: str
    letters: Mapping[str, str]
    reasons: Mapping[str, str]
    reason_of: ReasonOf

    def cells(self) -> list[Cell]:
        """Everything that is tried, in the table's order."""
        tried = []
        for step, fault, field in self._fields():
            for letter in field.partition("-")[0].strip():
                name, core = letter.lower(), letter.isupper() or letter == "#"
                if letter in "*#":
                    tried.append(Cell(step, fault, core=core))
                elif step.startswith(OF_SINKS):
                    tried.append(Cell(step, fault, sink=self.letters[name], core=core))
                else:
                    tried.append(Cell(step, fault, record=RECORDS[name], core=core))
        return tried

    def blanks(self) -> list[Blank]:
        """Everything that is not tried."""
        left_out = []
        for step, fault, field in self._fields():
            letters, _, key = field.partition("-")
            if not step.startswith(OF_SINKS):
                if not letters:
                    left_out.append(Blank(step, fault, None, self.reasons[key]))
                continue
            tried = {self.letters[letter.lower()] for letter in letters.strip()}
            for sink in self.letters.values():
                if sink not in tried:
                    reason = self.reason_of(step, fault, sink, key, tried)
                    left_out.append(Blank(step, fault, sink, reason))
        return left_out

    def _fields(self) -> Iterator[tuple[str, str, str]]:
        for line in self.text.strip().splitlines():
            step, *fields = (field.strip() for field in line.split("|"))
            for fault, field in zip(COLUMNS, fields, strict=True):
                yield step, fault, field
