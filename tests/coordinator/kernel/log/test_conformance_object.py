"""The log kit on object stores: S3, and the local and in-memory stores of obstore."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.s3_server import BUCKET, S3Server, lose_the_answer
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.testing.log_conformance import LogConformance, PruningInterrupted


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


@contextmanager
def losing_the_record_before(log: ObjectLog, slot: int) -> Iterator[ObjectLog]:
    """The object is deleted right after the next one is put."""
    import obstore

    honest = obstore.put

    def put(store: Any, path: str, data: bytes, **more: Any) -> Any:
        result = honest(store, path, data, **more)
        log.delete([slot - 1])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "put", put)
        yield log


@contextmanager
def interrupting_pruning(log: ObjectLog, at: int) -> Iterator[ObjectLog]:
    """Each object is an act; of a request that names several the store may delete the last one first."""
    import obstore

    honest, acts = obstore.delete, count(1)

    def delete(store: Any, paths: Any) -> None:
        for path in [paths] if isinstance(paths, str) else reversed(list(paths)):
            if next(acts) == at:
                raise PruningInterrupted
            honest(store, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "delete", delete)
        yield log


@pytest.mark.slow
class TestS3Log(LogConformance):
    RACES = 300  # this server is one Python process: 14 ms each on a quiet machine, ten times that on a loaded one
    SECRETS = ("key-not-to-be-seen", "secret-not-to-be-seen")
    NO_LOST_ANSWER = ""
    NO_LOSS_MEANWHILE = ""
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = ""

    @pytest.fixture(autouse=True)
    def place(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in s3.environment().items():
            monkeypatch.setenv(name, value)
        self.server = s3
        self.prefix = f"tests/{uuid.uuid4().hex}"

    def make_log(self) -> ObjectLog:
        return ObjectLog(f"s3://{BUCKET}", prefix=self.prefix)

    def make_neighbour(self) -> ObjectLog:
        return ObjectLog(f"s3://{BUCKET}", prefix=f"{self.prefix}2")

    @contextmanager
    def losing_the_answer(self) -> Iterator[ObjectLog]:
        self.server.fault = lose_the_answer
        yield self.make_log()

    def losing_the_record_before(self, slot: int) -> AbstractContextManager[ObjectLog]:
        return losing_the_record_before(self.make_log(), slot)

    def interrupting_pruning(self, at: int) -> AbstractContextManager[ObjectLog]:
        return interrupting_pruning(self.make_log(), at)

    def damage(self, slot: int, data: bytes) -> None:
        import obstore
        from obstore.store import from_url

        obstore.put(from_url(f"s3://{BUCKET}"), f"{self.prefix}/{slot:020d}.json", data)


class TestLocalStoreLog(LogConformance):
    slow_tests = (
        "test_of_two_racing_processes_exactly_one_wins_each_slot",
        "test_a_put_that_is_killed_leaves_its_slot_whole_or_empty",
        "test_a_reader_never_sees_a_part_of_a_record",
    )
    NO_LOST_ANSWER = "the store is this process and its disk"
    NO_LOSS_MEANWHILE = ""
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = ""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def make_log(self) -> ObjectLog:
        from obstore.store import LocalStore

        return ObjectLog(LocalStore(self.directory), prefix="orders")

    def make_neighbour(self) -> ObjectLog:
        from obstore.store import LocalStore

        return ObjectLog(LocalStore(self.directory), prefix="orders2")

    def losing_the_record_before(self, slot: int) -> AbstractContextManager[ObjectLog]:
        return losing_the_record_before(self.make_log(), slot)

    def interrupting_pruning(self, at: int) -> AbstractContextManager[ObjectLog]:
        return interrupting_pruning(self.make_log(), at)

    def damage(self, slot: int, data: bytes) -> None:
        (self.directory / "orders" / f"{slot:020d}.json").write_bytes(data)


class TestMemoryStoreLog(LogConformance):
    ONE_PROCESS = "a memory store is in the memory of one process"
    NO_LOST_ANSWER = "the store is this process"
    NO_LOSS_MEANWHILE = "it is shown on the other stores"
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = "whoever overwrites a memory store does it through the store"

    @pytest.fixture(autouse=True)
    def place(self) -> None:
        from obstore.store import MemoryStore

        self.store = MemoryStore()

    def make_log(self) -> ObjectLog:
        return ObjectLog(self.store, prefix="orders")

    def make_neighbour(self) -> ObjectLog:
        return ObjectLog(self.store, prefix="orders2")

    def interrupting_pruning(self, at: int) -> AbstractContextManager[ObjectLog]:
        return interrupting_pruning(self.make_log(), at)
