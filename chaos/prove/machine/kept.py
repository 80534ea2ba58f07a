"""The record of a run, a line for each result as soon as it is there: a run that was ended goes on from it.

What was found of another state of the code, of its tests or of the installed packages is not gone on with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.scores import Round, Tried
from tpc.chaos.prove.mutant import Catch
from tpc.chaos.prove.trial import Fate, MutantTrial


class Kept:
    """The results in one file, of the code with this fingerprint."""

    def __init__(self, path: Path, of: str) -> None:
        self.path = path
        self._of = of

    def read(self, all_made: Sequence[Made]) -> list[Tried]:
        """The last result of each of these mutants that is there."""
        last = {line["key"]: line for line in lines_of(self.path) if line["of"] == self._of}
        return [_tried(made, last[made.key]) for made in all_made if made.key in last]

    def add(self, tried: Tried) -> None:
        """Keep one result more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps({"of": self._of, **tried.to_json()}) + "\n")  # one before was cut off, perhaps


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, without those that were cut off when a run was killed."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in filter(None, text.split("\n")):
        with suppress(json.JSONDecodeError):
            yield json.loads(line)


def missed_in(path: Path, all_made: Sequence[Made]) -> list[Made]:
    """Those of these mutants that are not noticed in a record, of whatever state of the code."""
    last = {line["key"]: line for line in lines_of(path)}
    return [made for made in all_made if made.key in last and not _is_settled(_tried(made, last[made.key]))]


def _is_settled(tried: Tried) -> bool:
    return tried.trial is None or tried.is_noticed


def _tried(made: Made, line: dict[str, Any]) -> Tried:
    return Tried(made, _trial(line["trial"]), line["reason"], Round(line["round"]), line["is_alone"])


def _trial(record: dict[str, Any] | None) -> MutantTrial | None:
    if record is None:
        return None
    catch = None if record["catch"] is None else Catch(**record["catch"])
    tried = [(check, outcome) for check, outcome in record["tried"]]
    given = {name: record[name] for name in ("mutant", "rule", "defect", "what", "trace", "seconds", "hung")}
    return MutantTrial(**given, fate=Fate(record["fate"]), catch=catch, tried=tried)
