"""The output mode of a Spark query that is adopted: a pipeline runs in append mode.

In update mode an aggregation writes a group at every change, in append mode once, when it is final. Going on from the
state of the one in the other writes groups again that are written already. Of an aggregation Spark's checkpoint does
not hold the mode, so the user says it; of the operators of transformWithState it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from tpc.errors import START_ANEW, ConfigurationError

_DESCRIPTION = re.compile(r"state/(\d+)/_metadata/(metadata|v2/\d+)")
_STATE = re.compile(r"state/(\d+)/")
_ALIKE = {"dedupe", "dedupeWithinWatermark", "symmetricHashJoin"}
"""Operators that write the same rows in either mode."""
_SAYS_MODE = re.compile("groups|transform", re.IGNORECASE)
"""In the names of operators for a user's functions: their mode is in the plan, and Spark compares it there."""
_REMEDY = (
    "a pipeline runs in append mode: build the state with a new query in append mode, into targets of its own, and "
    f"adopt that one; or {START_ANEW}, on a new checkpoint."
)


class OutputMode(str, Enum):
    """Of a streaming query of Spark."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


def require_append(old: Path, files: Iterable[str], said: OutputMode | None) -> None:
    """Raise `ConfigurationError` unless the query of `old`, a checkpoint with these files, ran in append mode."""
    names = list(files)
    keeps_state = {match[1] for name in names if (match := _STATE.match(name))}
    described = dict(_operators(old, names))
    for number, (operator, mode) in described.items():
        if mode is not None and mode.lower() != OutputMode.APPEND.value:
            raise ConfigurationError(
                f"the query of {old} ran in the output mode {mode} (operator {number}, {operator})", remedy=_REMEDY
            )
    if said not in (None, OutputMode.APPEND):
        raise ConfigurationError(f"the query of {old} ran in the output mode {said.value}", remedy=_REMEDY)
    asks = sorted(
        described.get(number, ("of unknown kind", None))[0]
        for number in keeps_state
        if number not in described or not _is_alike(described[number][0])
    )
    if asks and said is None:
        raise ConfigurationError(
            f"the query of {old} keeps state ({', '.join(asks)}) that depends on its output mode, which its checkpoint "
            "does not hold",
            remedy="look into the old program for outputMode(...). If there is none, or it says append, repeat with "
            f"--output-mode append. Else {_REMEDY}",
        )


def _is_alike(operator: str) -> bool:
    return operator in _ALIKE or _SAYS_MODE.search(operator) is not None


def _operators(old: Path, names: Iterable[str]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """By the number of an operator its name, and its mode where that is told; what cannot be read is left out."""
    for name in names:
        if (match := _DESCRIPTION.fullmatch(name)) is None:
            continue
        try:
            described = json.loads((old / name).read_text().partition("\n")[2])
            operator = str(described["operatorInfo"]["operatorName"])
            properties = json.loads(described.get("operatorPropertiesJson") or "{}")
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield match[1], (operator, properties.get("outputMode"))
