"""A timer with a changelog: its disk is lost, and what was pending fires as if nothing had been."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.program import Die, die
from tests.coordinator.service.test_timers_and_cut import losing
from tests.coordinator.service.timeouts import Clock, Timeouts, each_kind
from tests.support.kafka_topics import KafkaTopics
from tpc.coordinator.service import leader
from tpc.coordinator.service.cutting import Cutter
from tpc.sinks import KafkaChangelog


@pytest.mark.stack
@each_kind
@pytest.mark.parametrize("dies", [None, "epoch.decided", "sink.committed"])
def test_what_was_pending_is_made_again_from_the_changelog(
    dies: str | None, kind: Any, kafka: KafkaTopics, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path, kind=kind)
    timeouts.name = kafka.name("timeouts")
    topic = kafka.topic("changelog", partitions=3, cleanup_policy="compact")
    timeouts.changelog = KafkaChangelog(topic, servers=kafka.bootstrap, timeout_s=15.0)
    timeouts.events = [("a", 0), ("b", 100), ("c", 350)]
    timeouts.run(2)
    if dies is not None:
        timeouts.events += [("a", 380), ("d", 420)]
        with pytest.raises(Die):
            timeouts.run(2, **{dies.replace(".", "_"): die})
    shutil.rmtree(tmp_path / "service" / "state")
    timeouts.events += [("e", 700)]
    timeouts.run(2)
    assert timeouts.rows("fired") == [("a", 300)] + (
        [("b", 400), ("c", 650)] if dies is None else [("a", 680), ("b", 400), ("c", 650)]
    )


@pytest.mark.stack
@each_kind
def test_a_rebuild_and_a_replay_of_what_fires_by_the_clock_read_none(
    kind: Any, kafka: KafkaTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(leader, "Cutter", partial(Cutter, wall_s=clock))
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.name = kafka.name("timeouts")
    topic = kafka.topic("changelog", partitions=3, cleanup_policy="compact")
    timeouts.changelog = KafkaChangelog(topic, servers=kafka.bootstrap, timeout_s=15.0)
    timeouts.does = lambda timer, event, out: timer.set(event[0], after=tpc.seconds(event[1]))
    timeouts.events = [("a", 10), ("b", 40)]
    timeouts.run(2)
    clock.now_s += 10
    with pytest.raises(Die):
        timeouts.run(epoch_decided=losing(tmp_path))
    shutil.rmtree(tmp_path / "service" / "state")
    clock.now_s, reads = 500.0, clock.reads
    seen: list[int] = []
    timeouts.run(recovery_reconciled=lambda _step, _where: seen.append(clock.reads - reads))
    assert seen == [0]
    assert timeouts.rows("fired") == [("a", 1_010_000)]
    shutil.rmtree(tmp_path / "service" / "state")
    clock.now_s = 1_040.0
    timeouts.run()
    assert timeouts.rows("fired") == [("a", 1_010_000), ("b", 1_040_000)]
