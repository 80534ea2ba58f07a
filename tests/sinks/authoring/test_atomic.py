"""What `AtomicSink` makes of a store whose connection was closed, and of rows that its system refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pytest

from tpc.errors import DataError, TpcError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Verdict
from tpc.sinks.authoring import AtomicSink, Published, Store

PIPELINE = PipelineId("orders")
SCHEMA = pa.schema([("id", pa.int64())])


class RefusalError(Exception):
    """What the client of the system raises for a value."""


class System:
    """One that anybody's connection reaches, until it is restarted."""

    def __init__(self) -> None:
        self.staged: dict[str, list[bytes]] = {}
        self.marked: dict[str, set[str]] = {}
        self.texts: dict[str, str] = {}
        self.starts = 1
        self.takes_rows = True
        self.is_published_meanwhile = False


class SystemStore(Store):
    """A connection that a restart of the system closes; it does not reconnect by itself."""

    def __init__(self, system: System, *, looks: bool) -> None:
        self.system, self.looks, self.of_start = system, looks, system.starts

    def reach(self) -> System:
        if self.of_start != self.system.starts:
            raise ConnectionResetError("the server has closed the connection")
        return self.system

    def is_open(self) -> bool:
        return not self.looks or self.of_start == self.system.starts

    def stage(self, branch: str, place: int, rows: Sequence[bytes]) -> int:
        held = self.reach().staged.setdefault(branch, [])
        if len(held) == place:
            held += rows
        return len(held)

    def held(self, branch: str) -> int:
        return len(self.reach().staged.get(branch, []))

    def staged(self) -> Iterator[str]:
        yield from list(self.reach().staged)

    def drop(self, branch: str) -> None:
        self.reach().staged.pop(branch, None)

    def publish(self, branch: str, rows: int, key: str) -> Published:
        if not self.reach().takes_rows:
            if self.system.is_published_meanwhile:
                self.system.marked.setdefault(key, set()).add(branch)
            raise RefusalError("a trigger says no")
        self.drop(branch)
        self.system.marked.setdefault(key, set()).add(branch)
        return Published.NOW

    def withdraw(self, branch: str, key: str) -> bool:
        self.drop(branch)
        return branch in self.system.marked.get(key, ())

    def markers(self, key: str) -> Iterator[str]:
        yield from self.reach().marked.get(key, ())

    def unmark(self, key: str, branches: Sequence[str]) -> None:
        self.reach().marked[key] -= set(branches)

    def read(self, name: str) -> str | None:
        return self.reach().texts.get(name)

    def swap(self, name: str, before: str | None, after: str) -> bool:
        if self.reach().texts.get(name) != before:
            return False
        self.system.texts[name] = after
        return True

    def close(self) -> None:
        """Nothing is held."""


class SystemSink(AtomicSink):
    kind = "system"
    errors: ClassVar[Mapping[type[Exception], type[TpcError]]] = {RefusalError: DataError, OSError: TransientError}

    def __init__(self, system: System, *, looks: bool = True) -> None:
        super().__init__("rows")
        self.system, self.looks = system, looks
        self.connected = 0

    def describe(self) -> Mapping[str, str]:
        return {"target": "a system of the tests"}

    def connect(self) -> Store:
        self.connected += 1
        return SystemStore(self.system, looks=self.looks)


def prepared(sink: SystemSink) -> Committable:
    writer = sink.writer(Handle(PIPELINE, 1, "rows", 0, 0, 0), SCHEMA, {})
    writer.write(pa.RecordBatch.from_pydict({"id": [1, 2]}, schema=SCHEMA))
    made = writer.prepare()
    assert made is not None
    return made


def test_a_store_that_says_that_it_is_closed_is_connected_again_before_it_is_used() -> None:
    sink = SystemSink(System())
    committer = sink.committer(PIPELINE)
    branch = prepared(sink)
    assert [doubt.resource for doubt in committer.in_doubt()] == [branch.resource]
    sink.system.starts += 1
    assert [doubt.resource for doubt in committer.in_doubt()] == [branch.resource]


def test_one_that_does_not_say_so_fails_once() -> None:
    sink = SystemSink(System(), looks=False)
    committer = sink.committer(PIPELINE)
    assert committer.in_doubt() == []
    sink.system.starts += 1
    with pytest.raises(TransientError, match="the server has closed the connection"):
        committer.in_doubt()
    assert committer.in_doubt() == []


def test_rows_that_the_system_refuses_when_they_are_published_are_refused_and_not_tried_for_ever() -> None:
    sink = SystemSink(System())
    branch = prepared(sink)
    sink.system.takes_rows = False
    (outcome,) = sink.committer(PIPELINE).commit([branch])
    assert outcome.verdict is Verdict.REFUSED
    assert "a trigger says no" in outcome.evidence
    assert sink.system.staged[branch.resource], "an operator may still let it be committed"


def test_what_is_refused_since_another_coordinator_has_published_it_is_published() -> None:
    sink = SystemSink(System())
    branch = prepared(sink)
    sink.system.takes_rows, sink.system.is_published_meanwhile = False, True
    (outcome,) = sink.committer(PIPELINE).commit([branch])
    assert outcome.verdict is Verdict.ALREADY


def test_a_store_is_closed_without_a_new_connection() -> None:
    sink = SystemSink(System())
    committer = sink.committer(PIPELINE)
    assert committer.in_doubt() == []
    sink.system.starts += 1
    connected = sink.connected
    committer.close()
    assert sink.connected == connected
