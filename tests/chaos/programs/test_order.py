"""The check of the order per object, on outputs made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.kafka_content import KafkaRecord
from tpc.chaos.programs import commands_to_events

Row = tuple[str, int]


def checks_of(table: list[Row], topics: dict[str, list[Row]], monkeypatch: pytest.MonkeyPatch) -> dict[str, Check]:
    """The checks when the outputs hold these rows in this order; there is no audit log."""

    def read_topic(_servers: str, topic: str) -> Iterator[KafkaRecord]:
        for offset, (name, number) in enumerate(topics[topic]):
            value = json.dumps({"object": name, "id": number}).encode()
            yield KafkaRecord(topic, 0, offset, name.encode(), value, {})

    monkeypatch.setenv("TPC_KAFKA", "unused")
    monkeypatch.setenv("TPC_POSTGRES", "unused")
    monkeypatch.setattr(commands_to_events, "read_topic", read_topic)
    monkeypatch.setattr(commands_to_events, "query", lambda _dsn, _statement: table)
    found = commands_to_events.checks(Path("/nowhere"))
    return {check.name.removesuffix(" keeps the order of each object"): check for check in found}


def sent() -> tuple[list[Row], list[Row]]:
    """(object, id) of the valid commands and of the refused ones, as they were sent."""
    outcomes = commands_to_events.judged()
    rows = list(zip(outcomes["object"], outcomes["id"], outcomes["reason"].isna(), strict=True))
    return [(o, n) for o, n, valid in rows if valid], [(o, n) for o, n, valid in rows if not valid]


def test_objects_may_mix_as_long_as_each_keeps_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    valid, refused = sent()
    by_object = sorted(valid, key=lambda row: row[0])  # stable: within an object as sent
    checks = checks_of(by_object, {"events": valid, "refused": refused}, monkeypatch)
    assert checks["table events"].passed and checks["topic events"].passed and checks["topic refused"].passed
    assert not checks["the audit log"].passed


def test_two_commands_on_one_object_that_changed_places_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    valid, refused = sent()
    first = valid[0]
    later = next(row for row in valid[1:] if row[0] == first[0])
    swapped = [{first: later, later: first}.get(row, row) for row in valid]
    checks = checks_of(valid, {"events": swapped, "refused": refused}, monkeypatch)
    assert checks["table events"].passed
    assert not checks["topic events"].passed and checks["topic events"].differences[0].startswith(first[0])
