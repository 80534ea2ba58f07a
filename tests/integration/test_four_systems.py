"""Kafka, PostgreSQL, MongoDB and files as one unit, on the real systems, killed at every step and restarted.

Several deaths of one pipeline, one after the other, and with state; each step with each sink and each fault by itself
is the matrix's (`tests/chaos/matrix`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

import tpc
from tests.integration.scene import Dead, Scene, Systems, die, exit_worker
from tpc.errors import TpcError

pytestmark = [pytest.mark.stack, pytest.mark.spark]


class DieUnless:
    """Lets one sink commit and dies before any other does."""

    def __init__(self, sink: str) -> None:
        self.sink = sink

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        if where["sink"] != self.sink:
            raise Dead(f"{step} of {where['sink']}")


def steps(sink: str | None) -> list[tuple[str, dict[str, Any], type[Exception]]]:
    """The six steps at which a run is killed; between two commits only `sink` has committed."""
    between = {"sink.committed": die} if sink is None else {"sink.commit": DieUnless(sink)}
    return [
        ("during the pass", {"pass.prepare": exit_worker}, Exception),
        ("prepared, not decided", {"epoch.prepared": die}, Dead),
        ("decided, nothing committed", {"epoch.decided": die}, Dead),
        ("between two commits", between, Dead),
        ("committed, not complete", {"epoch.committed": die}, Dead),
        ("complete, not in Spark's log", {"epoch.completed": die}, Dead),
    ]


@pytest.mark.parametrize("sink", ["kafka", "airports"])
def test_one_sink_alone_comes_back_right_from_every_step(systems: Systems, sink: str) -> None:
    scene = Scene(systems, [sink])
    scene.feed()
    scene.run()
    for _, actions, expected in steps(None):
        scene.feed()
        scene.run_with(actions, expected)
    scene.run()
    scene.check()


@pytest.mark.parametrize("first", ["kafka", "files"])
def test_all_sinks_together_come_back_right_from_every_step_whoever_commits_first(systems: Systems, first: str) -> None:
    scene = Scene(systems, stateful=first == "kafka")
    scene.feed()
    scene.run()
    for _, actions, expected in steps(first):
        scene.feed()
        scene.run_with(actions, expected)
    scene.run()
    scene.check()


def test_readers_see_nothing_of_an_epoch_before_it_is_decided(systems: Systems) -> None:
    scene = Scene(systems)
    scene.feed()
    scene.run_with({"epoch.prepared": die}, Dead)
    assert not scene.in_kafka()
    assert not scene.in_postgres()
    assert not scene.in_files()
    assert not scene.tallies()
    assert not scene.airports()
    assert len(scene.in_doubt()) >= 6, "every sink has prepared something"


def test_commit_before_the_intent_is_noticed_by_the_checks(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the commit point taken away a death between commit and intent must be seen."""
    from tpc.coordinator.passes.driver import SparkPass

    honest = SparkPass.write

    def hasty(self: SparkPass, epoch: int, generation: int) -> Any:
        manifest = honest(self, epoch, generation)
        handles = frozenset(str(b.committable.handle) for _, b in manifest.branches())
        self.participants.commit(manifest, handles, frozenset())
        return manifest

    scene = Scene(systems, ["kafka", "tallies"])
    scene.feed()
    scene.run()
    scene.feed()
    monkeypatch.setattr(SparkPass, "write", hasty)
    scene.run_with({"epoch.prepared": die}, Exception)
    monkeypatch.setattr(SparkPass, "write", honest)
    with pytest.raises((AssertionError, TpcError)):
        scene.run()
        scene.check()


def test_a_start_with_secrets_writes_them_nowhere(systems: Systems, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tallies are gathered, so the driver alone needs the variable: workers got their environment long ago."""
    monkeypatch.setenv("SCENE_DSN", make_conninfo(systems.postgres.dsn, application_name="hunter2"))
    scene = Scene(systems, ["tallies"])
    scene.dsn = tpc.env("SCENE_DSN")
    scene.feed()
    scene.run()
    scene.check()
    texts = [path.read_bytes() for path in systems.root.rglob("*") if path.is_file()]
    assert texts
    assert not any(b"hunter2" in text for text in texts)
