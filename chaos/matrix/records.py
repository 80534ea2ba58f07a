"""What is written down of a run: one record per case, all of them in `cases.json`, whole after every case.

And the lines that a run ends with, counted from that file.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.pipeline import SPARK
from tpc.chaos.reports.tally import FAILED, PASSED, SKIPPED, Tally, tally
from tpc.errors import ConfigurationError

FILE_NAME = "cases.json"
MENDED = (
    "the brokers do not show its marker: it is put again",
    "has lost its source offsets: they are written again",
)
"""What a driver's log says when something that was lost is put again: without its fault, that hides a defect."""


@dataclass
class CaseRecord:
    """One case. `fired` are its faults as they were made, the setup's not among them.

    `epoch` is what the step of the first one told; the steps of a recovery tell none, then it is the epoch that was in
    doubt, as the setup's step told it. `not_set_up`: it timed out before its first fault; `set_up_again`: why the runs
    before this one did, see `set_ups`. `recovery_s` is of a restart; null when none was needed. `mended`: see `MENDED`.
    """

    name: str
    suite: str
    step: str
    fault: str
    sink: str | None
    seed: int
    second: Mapping[str, str | None] | None = None
    pipeline: str = SPARK
    processes: str = "shared session"
    epoch: int | None = None
    counts: bool = True
    fired: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = FAILED
    reason: str = ""
    not_set_up: bool = False
    set_up_again: list[str] = field(default_factory=list)
    recovery_s: float | None = None
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    mended: list[str] = field(default_factory=list)
    began_at: float = field(default_factory=time.time)

    def note(self, what: str, at: float | None = None) -> None:
        """A line of the timeline; `at` in seconds since 1970, by default now."""
        self.timeline.append({"s": round((at or time.time()) - self.began_at, 3), "what": what})

    def to_json(self) -> dict[str, Any]:
        """As it stands in cases.json."""
        body = dict(vars(self))
        body["checks"] = [check.to_json() for check in self.checks]
        body["timeline"] = sorted(self.timeline, key=lambda line: float(line["s"]))
        return body


@dataclass
class Records:
    """The records of a run, kept in `directory`."""

    directory: Path
    settings: Mapping[str, Any]
    blanks: Sequence[Mapping[str, Any]] = ()
    began_at: float = field(default_factory=time.time)
    cases: list[CaseRecord] = field(default_factory=list)
    earlier: Sequence[Mapping[str, Any]] = ()
    """The cases of a run that this one goes on with, as they stood in its file."""

    def add(self, record: CaseRecord) -> None:
        """Take in a finished case; the file is whole before and after."""
        self.cases.append(record)
        self.write()

    def write(self) -> None:
        """Put the file in place at once."""
        body = {
            "settings": dict(self.settings),
            "began_at": self.began_at,
            "seconds": round(time.time() - self.began_at, 3),
            "cases": [*self.earlier, *(case.to_json() for case in self.cases)],
            "blanks": [dict(blank) for blank in self.blanks],
        }
        new = self.directory / f"{FILE_NAME}.new"
        new.write_text(json.dumps(body, indent=1, default=str))
        new.rename(self.directory / FILE_NAME)


def passed_before(directory: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cases that have passed in an earlier run into `directory`, which must have had the same settings.

    Raises `ConfigurationError` where there is none, or one with other settings: its cases say nothing of these.
    """
    try:
        record = json.loads((directory / FILE_NAME).read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{directory} holds no run that can be resumed: {error}", remedy="start a new run without --resume."
        ) from error
    differs = [name for name in settings if record["settings"].get(name) != settings[name]]
    if differs:
        raise ConfigurationError(
            f"the run in {directory} was made with another {', another '.join(differs)}",
            remedy="use the options and the code of that run, or start a new run without --resume.",
        )
    return [case for case in record["cases"] if case["outcome"] == PASSED]


# In words ----------------------------------------------------------------------------------------------------------


def tally_of(directory: Path) -> Tally:
    """The tally of a run, from its file."""
    return tally(_cases(directory))


def closing_line(directory: Path) -> str:
    """The last line of a run, from the file."""
    cases = tally_of(directory).cases
    return f"{cases.total()} cases, {_told(cases)}"


def uncounted_line(directory: Path) -> str:
    """What was run and is not in the closing line, from the file."""
    more = tally_of(directory).more
    kinds = "variants, and steps at which no branch is prepared"
    return f"{more.total()} more runs that do not count ({kinds}): {_told(more)}"


def service_line(directory: Path) -> str | None:
    """How many of the cases are a service's, from the file; None without any."""
    cases = tally(case for case in _cases(directory) if case["pipeline"] != SPARK).cases
    return f"{cases.total()} of the cases with a service: {_told(cases)}" if cases else None


def mended_line(directory: Path) -> str | None:
    """In which cases the pipeline put again what was lost, from the file; None where in none."""
    names = [case["name"] for case in _cases(directory) if case["mended"]]
    return f"{len(names)} in which something lost was put again: {', '.join(names)}" if names else None


def _cases(directory: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((directory / FILE_NAME).read_text())["cases"]
    return cases


def _told(counted: Counter[str]) -> str:
    return f"{counted[PASSED]} passed, {counted[FAILED]} failed, {counted[SKIPPED]} skipped"
