"""What operators' commands say of a state with a changelog whose disk is lost, damaged or old; and what they change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.changelog.program import Counted
from tests.support.kafka_topics import KafkaTopics
from tpc.coordinator.operations import actions
from tpc.errors import StateLostError
from tpc.history import OWNERS_KEPT

COMMANDS: dict[str, Callable[[Any], object]] = {
    "recover": actions.recover,
    "sweep": actions.sweep,
    "remove": lambda service: actions.remove_sinks(service, ["out"], "not wanted"),
}


def store(counted: Counted) -> Path:
    return counted.directory / "service" / "state" / "kept.db"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_needs_the_state_says_that_a_start_makes_it_again_and_makes_none(
    command: str, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    counted.lose_disk()
    with pytest.raises(StateLostError, match="is lost here, or an older one, and its changelog can give it back"):
        COMMANDS[command](counted.service())
    assert not store(counted).exists()
    counted.run()
    counted.check()


def test_nothing_is_in_doubt_in_a_store_that_is_not_there(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    counted.lose_disk()
    assert actions.in_doubt(counted.service()) == []


@pytest.mark.parametrize("is_at_the_beginning", [True, False])
def test_a_damaged_file_is_named_and_once_it_is_moved_aside_the_state_is_made_again(
    is_at_the_beginning: bool, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    held = store(counted).read_bytes()
    damaged = b"\xa5" * len(held) if is_at_the_beginning else held[:1024] + b"\xa5" * (len(held) - 1024)
    counted.lose_disk()
    store(counted).parent.mkdir()
    store(counted).write_bytes(damaged)
    counted.values += range(60, 80)
    with pytest.raises(StateLostError, match=r"kept\.db, is damaged: SQLite says") as raised:
        counted.run()
    assert "move the file aside" in raised.value.remedy
    assert store(counted).read_bytes() == damaged
    store(counted).parent.rename(tmp_path / "aside")
    counted.run(every=20)
    counted.check()


def test_a_backup_older_than_the_terms_that_the_log_knows_is_moved_aside(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    state = store(counted).parent
    shutil.copytree(state, tmp_path / "backup")
    for first in range(OWNERS_KEPT + 2):
        counted.values += [20 + first]
        counted.run()
    counted.lose_disk()
    (tmp_path / "backup").rename(state)
    with pytest.raises(StateLostError, match="an old backup was put back") as raised:
        counted.run()
    assert raised.value.remedy.startswith(f"move {store(counted)} aside")
    counted.lose_disk()
    counted.run()
    assert counted.stored() == counted.seen
