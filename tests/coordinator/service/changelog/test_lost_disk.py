"""A state with a changelog: its disk is lost at any moment, and outputs and state are as if nothing had been."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.changelog.program import Counted
from tests.coordinator.service.program import STEPS
from tests.support.kafka_topics import KafkaTopics
from tpc.coordinator.operations import actions
from tpc.coordinator.service.state.lost_stores import StoreFilling
from tpc.errors import StateLostError

DEATHS = ("epoch.planned", *STEPS)


@pytest.mark.parametrize("kind", [dict, "disk"])
def test_a_lost_disk_is_made_again_from_the_changelog_alone(kind: Any, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=100)
    counted.kind = kind
    counted.run(every=20)
    counted.check()
    counted.lose_disk()
    counted.values += range(100, 230)
    counted.run(every=33)
    counted.check()


def test_check_says_that_a_start_makes_a_lost_state_again_and_changes_nothing(
    kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=40)
    actions.check(counted.service())
    counted.run(every=20)
    actions.check(counted.service())
    counted.lose_disk()
    with pytest.raises(StateLostError, match="'kept' is lost here, or an older one, and its changelog can"):
        actions.check(counted.service())
    counted.run()
    actions.check(counted.service())
    counted.check()


@pytest.mark.parametrize("step", DEATHS)
def test_a_kill_at_any_step_and_the_disk_lost_with_it(step: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=90)
    counted.run(every=30)
    counted.values += range(90, 200)
    counted.killed(step)
    counted.lose_disk()
    counted.run(every=40)
    counted.check()


@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided", "sink.committed", "epoch.completed"])
def test_a_kill_in_the_first_epoch_and_the_disk_lost_with_it(step: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=50)
    counted.killed(step)
    counted.lose_disk()
    counted.run(every=40)
    counted.check()


@pytest.mark.parametrize("step", ["clear", "put", "identify", "show"])
def test_a_kill_while_the_state_is_made_again(step: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=90)
    counted.run(every=30)
    counted.lose_disk()
    counted.values += range(90, 120)
    counted.killed(step)
    counted.run(every=40)
    counted.check()


def test_what_stands_beyond_the_recorded_end_is_not_read(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=100)
    counted.run(every=20)
    held = kafka.read(counted.topic or "")
    kafka.produce(counted.topic or "", [(m.key(), None, m.partition()) for m in held])
    counted.lose_disk()
    counted.values += range(100, 130)
    counted.run(every=33)
    counted.check()


def test_a_state_that_is_there_is_not_made_again(
    kafka: KafkaTopics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    counted.values += range(60, 100)
    monkeypatch.delattr(StoreFilling, "clear")
    counted.run(every=33)
    counted.check()


def test_an_older_folder_put_back_is_brought_to_the_last_epoch(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    state = tmp_path / "service" / "state"
    shutil.copytree(state, tmp_path / "backup")
    counted.values += range(60, 100)
    counted.run(every=20)
    counted.lose_disk()
    (tmp_path / "backup").rename(state)
    counted.values += range(100, 120)
    counted.run(every=20)
    counted.check()
