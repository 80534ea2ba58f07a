"""Which faults are tried at which steps, and why not the others: one table, data only.

A row is a step, a column a kind of fault. In a field stand the sinks it is tried with, by letter (`LETTERS`), or `*`
for a step that belongs to no sink, or the records of the log it is tried with (`RECORDS`). A capital marks a case of
the core. A field that begins with `-` is blank, and names its reason (`REASONS`); a sink that is missing in a field
is blank for the reason after the `-` at its end, or, without one, because of `MISSING`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpc.chaos.faults.fault import ERROR, EXIT, HANG, KILL, KILL_DRIVER, REPLY_LOST, ZOMBIE
from tpc.chaos.matrix.pipeline import SINKS, TASK_SINKS

LETTERS: Mapping[str, str] = {"k": "kafka", "r": "rows", "f": "files", "t": "tallies", "a": "airports", "o": "offsets"}
RECORDS: Mapping[str, str] = {"i": "intent", "c": "complete", "g": "generation"}

COLUMNS = (KILL, KILL_DRIVER, EXIT, ERROR, HANG, REPLY_LOST, ZOMBIE)

TABLE = """
pass.open            | krftao | krf-d  | -exit  | krFtao | krft   | -none  | krf-z
pass.write           | krfta  | krf-d  | -exit  | krfta  | kr     | -none  | kr-z
pass.prepare         | KrfTao | krf-d  | krf-e  | kRftao | krfa   | -none  | krF-z
pass.flushed         | KrftaO | krF-d  | -exit  | krftao | krfTao | kRtao  | kRfta-z
pass.prepared        | kRftao | krf-d  | krF-e  | Krftao | krftao | -after | KrftAo
epoch.planned        | *      | -self  | *      | *      | *      | -none  | *
epoch.collected      | #      | -self  | *      | *      | *      | -none  | *
epoch.prepared       | #      | -self  | #      | *      | *      | -none  | #
epoch.decided        | #      | -self  | *      | #      | *      | -none  | #
sink.commit          | Krftao | -self  | -exit  | krftao | krftao | krtAo  | Krftao
sink.committed       | kRftAo | -self  | -exit  | krFtao | krftao | -after | krfTao
epoch.committed      | #      | -self  | *      | *      | *      | -none  | *
epoch.completed      | #      | -self  | *      | *      | *      | -none  | *
log.put              | Icg    | -self  | -exit  | icg    | i      | -none  | icg
log.write            | i      | -self  | -exit  | icg    | i      | -none  | i
log.fsync            | icg    | -self  | -exit  | Icg    | i      | -none  | i
log.link             | i      | -self  | -exit  | ig     | i      | -none  | i
log.linked           | iCg    | -self  | -exit  | icg    | i      | -none  | icg
log.stored           | icg    | -self  | -exit  | -lost  | i      | Icg    | icg
recovery.claim       | *      | -self  | *      | *      | *      | -none  | #
recovery.claimed     | #      | -self  | *      | *      | *      | -none  | *
recovery.owned       | #      | -self  | *      | *      | *      | -none  | *
recovery.sweep       | #      | -self  | *      | *      | *      | -none  | *
recovery.swept       | *      | -self  | *      | *      | *      | -none  | *
recovery.reconcile   | *      | -self  | -exit  | *      | *      | -none  | *
recovery.reconciled  | *      | -self  | -exit  | *      | *      | -none  | *
"""

REASONS: Mapping[str, str] = {
    "self": "the step is the driver's own: this is `kill`",
    "d": "the driver itself is at this step: this is `kill`",
    "exit": "as `kill`: nothing of ours runs when a process exits like this; tried where the table says",
    "e": "as `kill` on the driver; tried for the tasks",
    "none": "nobody has been asked anything at this step, so that no answer can be lost",
    "after": "the answer is in at this step; it is lost at the step before",
    "lost": "an error here is a lost answer: see there",
    "z": "the driver itself stops at this step, as at `epoch.prepared`",
}
MISSING = "the same code as for the sinks tried here; the sink's own part is tried at pass.flushed and pass.prepared"
NO_ROWS = "source offsets have no rows"
NO_SERVER = "no server that could answer: an error after the effect is `error` at the next step"

UNCOUNTED = frozenset(
    {
        "epoch.planned",
        "epoch.committed",
        "epoch.completed",
        "recovery.swept",
        "recovery.reconcile",
        "recovery.reconciled",
    }
)
"""Steps at which no branch is prepared: what is tried there is not among the cases that count."""


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


def _fields() -> Iterator[tuple[str, str, str]]:
    for line in TABLE.strip().splitlines():
        step, *fields = (field.strip() for field in line.split("|"))
        for fault, field in zip(COLUMNS, fields, strict=True):
            yield step, fault, field


def _of_sink(step: str) -> bool:
    return step.startswith(("pass.", "sink."))


def cells() -> list[Cell]:
    """Everything that is tried, in the table's order."""
    tried = []
    for step, fault, field in _fields():
        letters = field.partition("-")[0]
        for letter in letters:
            name, core = letter.lower(), letter.isupper() or letter == "#"
            if letter in "*#":
                tried.append(Cell(step, fault, core=core))
            elif _of_sink(step):
                tried.append(Cell(step, fault, sink=LETTERS[name], core=core))
            else:
                tried.append(Cell(step, fault, record=RECORDS[name], core=core))
    return tried


def blanks() -> list[Blank]:
    """Everything that is not tried."""
    left_out = []
    for step, fault, field in _fields():
        letters, _, key = field.partition("-")
        if not _of_sink(step):
            if not letters:
                left_out.append(Blank(step, fault, None, REASONS[key]))
            continue
        tried = {LETTERS[letter.lower()] for letter in letters.strip()}
        for sink in SINKS:
            if sink not in tried:
                left_out.append(Blank(step, fault, sink, _reason(step, fault, sink, key, tried)))
    return left_out


def _reason(step: str, fault: str, sink: str, key: str, tried: set[str]) -> str:
    if step == "pass.write" and sink == "offsets":
        return NO_ROWS
    if fault == REPLY_LOST and sink == "files" and not key:
        return NO_SERVER
    if not key or (tried and sink in TASK_SINKS):
        return MISSING
    return REASONS[key]
