"""What an outbox of effects still holds, and what the other side was told, read without the sink.

The other side is a file: a call appends a line, durably, with what it knows by then.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tpc.chaos.checkers.compare import Check

DONE = ("done", "repeated")
"""States of an effect that is carried out, in the outbox's database."""


class Called(NamedTuple):
    """One call: its key, the row that it was for, its epoch, and up to which epoch the log was complete then."""

    key: str
    row: int
    epoch: int
    complete: int


def note_call(path: Path, call: Called) -> None:
    """What the other side does: durable before the caller has its answer."""
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(call).encode() + b"\n")
        os.fsync(file.fileno())


def read_calls(path: Path) -> list[Called]:
    """All of them, in their order; none where nobody has called."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Called(*json.loads(line)) for line in lines]


def waiting_effects(outbox: Path) -> list[str]:
    """The effects that are not carried out: with their states."""
    with closing(sqlite3.connect(f"{(outbox / '_tpc' / 'effects.db').as_uri()}?mode=ro", uri=True)) as db:
        found = db.execute("SELECT key, state FROM effects ORDER BY id").fetchall()
    return [f"{key} {state}" for key, state in found if state not in DONE]


def staged_effects(outbox: Path, pipeline: str) -> list[str]:
    """The files of its branches that were neither decided nor aborted."""
    return sorted(path.name for path in (outbox / "_tpc" / "staging").glob(f"tpc~{pipeline}~*"))


def calls_right(calls: Iterable[Called], due: Iterable[int]) -> list[Check]:
    """Every row in `due` was called for, and no other; under one key, however often; and never before its epoch."""
    made = list(calls)
    wanted, told = set(due), {call.row for call in made}
    keys: dict[int, set[str]] = {}
    for call in made:
        keys.setdefault(call.row, set()).add(call.key)
    several = {row: sorted(found) for row, found in keys.items() if len(found) > 1}
    shared = len({key for found in keys.values() for key in found}) < len(keys)
    early = [call for call in made if call.complete < call.epoch]
    return [
        Check(
            "every row that is to be called for was, and no other",
            bool(wanted) and told == wanted,
            f"{len(wanted)} due, missing {sorted(wanted - told)}, too many {sorted(told - wanted)}",
        ),
        Check(
            "a call that is made again has the same key, which no other row has",
            not several and not shared,
            f"{len(made)} calls of {len(keys)} rows; keys: {several}",
        ),
        Check("no call was made before its epoch was complete", not early, f"{early[:3]}"),
    ]
