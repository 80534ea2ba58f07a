"""A directory that holds epochs and is gone, or not mounted, is asked for: no start recreates it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.kept_program import Learned
from tests.coordinator.service.program import Die, die
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.operations import actions
from tpc.errors import ConfigurationError
from tpc.sinks import EffectSink
from tpc.sources import IterableSource


def test_it_is_not_made_and_goes_on_once_it_is_back(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.run()
    place, elsewhere = (tmp_path / "out").rename(tmp_path / "not mounted"), tmp_path / "out"
    learned.values += range(100, 120)
    with pytest.raises(ConfigurationError) as refused:
        learned.run()
    assert refused.value.what == (
        f"{elsewhere} is not there, but the log says that this pipeline has written epochs to sink 'out'"
    )
    assert (refused.value.sink, refused.value.epoch) == ("out", None)
    assert not elsewhere.exists()
    place.rename(elsewhere)
    learned.run()
    assert learned.written() == learned.expected()


def test_nothing_is_put_into_the_empty_directory_over_which_it_is_mounted(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.run()
    (tmp_path / "out").rename(tmp_path / "not mounted")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigurationError, match="out holds no files of a sink"):
        learned.run()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_decided_epoch_that_waits_for_it_is_named(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    with pytest.raises(Die):
        learned.run(actions={"epoch.decided": die})
    place = (tmp_path / "out").rename(tmp_path / "not mounted")
    with pytest.raises(ConfigurationError, match="decided epoch 0 is not committed in it yet") as refused:
        learned.run()
    assert refused.value.epoch == 0
    assert "record a decision (`tpc resolve`), then take the sink out" in refused.value.remedy
    place.rename(tmp_path / "out")
    learned.run()
    assert learned.written() == learned.expected()


@pytest.mark.parametrize("command", [actions.check, actions.recover, actions.sweep])
def test_no_command_makes_it(command: Callable[[Job], object], tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.run()
    (tmp_path / "out").rename(tmp_path / "not mounted")
    with pytest.raises(ConfigurationError, match="out is not there, but the log says"):
        command(learned.service())
    assert not (tmp_path / "out").exists()


def test_after_its_removal_on_the_record_the_sink_begins_in_a_new_directory(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.run()
    (tmp_path / "out").rename(tmp_path / "gone for good")
    checkpoint = LocalCheckpoint(tmp_path / "service")
    actions.remove_lost_sink(actions.log_of(checkpoint), checkpoint, "out", "the disk has died")
    learned.values += range(100, 120)
    learned.run()
    assert learned.written() == learned.expected()[100:]


def test_an_outbox_is_one_of_them(tmp_path: Path) -> None:
    calls: list[int] = []

    def run(numbers: list[int]) -> None:
        service = tpc.service("mails", directory=tmp_path / "service")
        read = service.read(IterableSource(numbers, name="numbers"))

        @service.each(read)
        def told(number: int, out: Any) -> None:
            out.row("mails", {"n": number})

        (tmp_path / "outbox").mkdir(exist_ok=True)
        sink = EffectSink(
            *("outbox", tmp_path / "outbox"),
            call=lambda effect: calls.append(effect.row["n"]),
            key=["n"],
            guarantee="at-least-once",
            wait=True,
        )
        service.write("mails", {"n": int}).to(sink)
        service.run(until_end=True)

    run([1])
    (tmp_path / "outbox").rename(tmp_path / "not mounted")
    with pytest.raises(ConfigurationError, match="outbox holds no outbox, but the log says"):
        run([1, 2])
    assert list((tmp_path / "outbox").iterdir()) == []
    (tmp_path / "outbox").rmdir()
    (tmp_path / "not mounted").rename(tmp_path / "outbox")
    run([1, 2])
    assert calls == [1, 2]
