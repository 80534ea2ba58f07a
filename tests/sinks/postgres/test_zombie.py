"""A fenced coordinator prepares once more: what it holds does not hold its successor up until the next sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.regressions.job import Job, Pass, Term
from tests.support.epochs import run_epoch
from tests.support.postgres_database import PostgresDatabase
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.errors import FencedError
from tpc.handles import PipelineId
from tpc.manifest import Manifest
from tpc.sinks import PostgresSink

WITHIN_S = 8.0
"""Less than a writer waits for a lock (10 s), and much less than the interval of sweeps (30 s)."""


class LatePass(Pass):
    """Prepares when it is told to, and its last task ends when it is cancelled, or at the end of the test."""

    def __init__(self, term: Term, ids: Collection[int]) -> None:
        super().__init__(term, ids)
        self.begins, self.prepared, self.ends = threading.Event(), threading.Event(), threading.Event()

    def cancel(self) -> None:
        self.ends.set()

    def write(self, epoch: int, generation: int) -> Manifest:
        assert self.begins.wait(60)
        super().write(epoch, generation)
        self.prepared.set()
        assert self.ends.wait(60)
        raise RuntimeError("the job was cancelled")


@pytest.mark.parametrize(
    ("old_watches_s", "new_watches_s"), [(1.0, None), (None, 1.0)], ids=["the zombie sees it", "the successor sees it"]
)
def test_what_a_zombie_prepares_late_does_not_hold_its_successor_up(
    postgres: PostgresDatabase, tmp_path: Path, old_watches_s: float | None, new_watches_s: float | None
) -> None:
    postgres.execute("CREATE TABLE target (id bigint PRIMARY KEY, word text)")
    sink = PostgresSink("target", dsn=postgres.dsn, name="pg")
    pipeline = PipelineId(postgres.name)

    def job(watch_interval_s: float | None) -> Job:
        return Job(pipeline, tmp_path / "job", [sink], "source", EngineSettings(watch_interval_s=watch_interval_s))

    old = job(old_watches_s).start()
    old.run(0, range(4))
    late, errors = LatePass(old, range(4, 8)), list[BaseException]()

    def zombie() -> None:
        try:
            run_epoch(old.engine, 1, late)
        except (FencedError, RuntimeError) as error:  # the latter where the successor has undone all of it
            errors.append(error)

    thread = threading.Thread(target=zombie)
    thread.start()
    new = job(new_watches_s).start()
    try:
        late.begins.set()
        assert late.prepared.wait(60)
        began = time.monotonic()
        new.run(1, range(4, 8))
        assert time.monotonic() - began < WITHIN_S
    finally:
        late.ends.set()
        thread.join(60)
        old.coordinator.close()
        new.coordinator.close()
    assert len(errors) == 1
    assert [row for (row,) in postgres.execute("SELECT id FROM target ORDER BY id")] == list(range(8))
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") == []
