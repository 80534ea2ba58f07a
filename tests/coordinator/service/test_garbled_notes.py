"""Notes beside a checkpoint that are garbled: commands and starts go on, or say by name what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.program import Numbers
from tpc.coordinator.kernel.heartbeat import FILE_NAME as ALIVE
from tpc.coordinator.kernel.parked import FILE_NAME as PARKED
from tpc.coordinator.operations.actions import recover, status
from tpc.errors import TpcError

DEEP = "[" * 100_000
TAKEOVER = {"process": 1, "began": 0.0, "at": 0.0, "boot": ""}
BEAT = {"turn": 1, "process": 1, "host": "h", "boot": "b", "began": 0.0, "count": 0, "ended": False}
REFUSAL = {"epoch": 0, "sink": "even", "what": "no", "at": 0.0}
WHOLE: dict[str, dict[str, Any]] = {"takeover": TAKEOVER, ALIVE: BEAT, PARKED: REFUSAL, "callbacks.json": {"epoch": 0}}
ODD: list[Any] = ["x", None, [], {}, -1, 1e20, 10**30, True, float("nan"), float("inf")]


def garbled(note: str) -> list[str]:
    """The note with each of its fields odd in each way, and what is no note at all."""
    whole = WHOLE[note]
    fields = [json.dumps({**whole, name: odd}) for name in whole for odd in ODD]
    return ["", "\0" * 10, "null", "{}", DEEP, '{"a":' + DEEP, *fields, json.dumps({**whole, "more": 1})]


@pytest.mark.slow
@pytest.mark.parametrize("note", WHOLE)
def test_a_garbled_note_ends_no_command_and_no_start_with_an_error_of_python(note: str, tmp_path: Path) -> None:
    numbers = Numbers(tmp_path, 20)
    numbers.run(every=10)
    notes = numbers.service().checkpoint.notes
    for number, text in enumerate(garbled(note)):
        (notes / note).write_text(text)
        service = numbers.service()
        service.on_complete(lambda row: None)
        numbers.values.append(20 + number)
        try:
            status(service.log, service.checkpoint)
            recover(numbers.service())
            service.run(every=10, until_end=True)
        except TpcError as error:
            assert error.remedy, text[:200]
            (notes / note).unlink()
            service.run(every=10, until_end=True)
    assert numbers.is_right()
