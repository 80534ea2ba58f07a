"""A source that a service reads no more: nothing of it is taken, and read again one day it goes on where it stood."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die, die
from tpc import failpoints
from tpc.__main__ import app
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations import actions
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.sources import IterableSource


class Merged:
    """A service of which every run reads some sources, of numbers that are their own time, and retires others."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[str, list[int]] = {"old": [1, 2, 3], "new": [10, 20, 30, 40]}
        self.watermarks: list[int | None] = []

    def service(self, *read: str, retire: Sequence[str] = ()) -> tpc.Service:
        service = tpc.service("merged", directory=self.directory / "service")
        sources = [IterableSource(partial(self.values.__getitem__, name), name=name) for name in read]
        for name in retire:
            service.retire(name)

        @service.each(*(service.read(source, time=int) for source in sources))
        def taken(number: int, out: Any) -> None:
            self.watermarks.append(out.watermark_ms)
            out.row("rows", {"n": number, "watermark": out.watermark_ms})

        service.write("rows", {"n": int, "watermark": int}).to(FileSink(self.directory / "out", name="out"))
        return service

    def run(self, *read: str, retire: Sequence[str] = ()) -> None:
        self.service(*read, retire=retire).run(every=100, until_end=True)

    def run_to(self, step: str, *read: str) -> None:
        failpoints.install({step: die})
        try:
            with pytest.raises(Die):
                self.run(*read)
        finally:
            failpoints.install({})

    def lose_prepared(self) -> None:
        """What is staged and not committed."""
        for path in (self.directory / "out").rglob("*.parquet"):
            if path.parent != self.directory / "out":
                path.unlink()

    def refused_for_a_lost_branch(self) -> ConfigurationError:
        """Epoch 1 is decided with an event of the old source, its branch is lost, and a start retires that source."""
        self.values["old"].append(4)
        self.run_to("epoch.decided", "old", "new")
        self.lose_prepared()
        with pytest.raises(ConfigurationError) as refused:
            self.run("new", retire=["old"])
        return refused.value

    @property
    def written(self) -> list[int]:
        files = (self.directory / "out").glob("*.parquet")
        return sorted(n for path in files for n in pq.read_table(path)["n"].to_pylist())

    @property
    def epochs(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.service("new").log).open())


@pytest.fixture
def merged(tmp_path: Path) -> Merged:
    made = Merged(tmp_path)
    made.run("old", "new")
    assert made.written == [1, 2, 3, 10, 20, 30, 40]
    return made


def test_nothing_of_a_retired_source_is_taken(merged: Merged) -> None:
    merged.values["old"].append(4)
    merged.values["new"].append(50)
    merged.run("new", retire=["old"])
    assert merged.written == [1, 2, 3, 10, 20, 30, 40, 50]


def test_one_that_is_left_out_without_a_word_is_refused_with_the_word(merged: Merged) -> None:
    with pytest.raises(ConfigurationError, match=r"from source 'old' before.*service\.retire\('old'\)"):
        merged.run("new")
    assert merged.written == [1, 2, 3, 10, 20, 30, 40]


def test_check_asks_for_the_word_as_a_start_does(merged: Merged) -> None:
    with pytest.raises(ConfigurationError, match="retire"):
        actions.check(merged.service("new"))
    actions.check(merged.service("new", retire=["old"]))


def test_its_retirement_is_on_record_with_an_epoch_of_its_own_and_need_not_be_said_again(merged: Merged) -> None:
    merged.run("new", retire=["old"])
    assert [epoch["end"] for epoch in merged.epochs] == [["3", "4"], ["4"]]
    merged.values["new"].append(50)
    merged.run("new")
    merged.run("new", retire=["old"])
    assert [epoch["end"] for epoch in merged.epochs] == [["3", "4"], ["4"], ["5"]]


def test_read_again_under_its_name_it_goes_on_where_it_stood(merged: Merged) -> None:
    merged.run("new", retire=["old"])
    merged.values["new"].append(50)
    merged.run("new")
    merged.values["old"] += [4, 5]
    merged.values["new"].append(60)
    merged.run("new", "old")
    assert merged.written == [1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 60]
    with pytest.raises(ConfigurationError, match="from source 'old' before"):
        merged.run("new")


def test_what_was_not_decided_when_it_was_retired_is_not_taken(merged: Merged) -> None:
    merged.values["old"].append(4)
    merged.values["new"].append(50)
    merged.run_to("epoch.prepared", "old", "new")
    merged.run("new", retire=["old"])
    assert merged.written == [1, 2, 3, 10, 20, 30, 40, 50]


def test_what_was_decided_when_it_was_retired_is_committed(merged: Merged) -> None:
    merged.values["old"].append(4)
    merged.run_to("epoch.decided", "old", "new")
    merged.run("new", retire=["old"])
    assert merged.written == [1, 2, 3, 4, 10, 20, 30, 40]


def test_a_lost_branch_that_it_has_a_part_in_is_written_again_before_it_is_retired(merged: Merged) -> None:
    refused = merged.refused_for_a_lost_branch()
    said = str(refused)
    assert (refused.epoch, refused.sink) == (1, "out")
    assert "sink 'out' has lost what it had prepared of epoch 1" in said and "source 'old' only" in said
    assert f"`tpc resolve {merged.directory / 'service'} --epoch 1 --sink=out --accept-loss" in said
    merged.run("old", "new")
    merged.run("new", retire=["old"])
    assert merged.written == [1, 2, 3, 4, 10, 20, 30, 40]


def test_a_lost_branch_of_a_gone_source_is_given_up_by_the_command_in_the_error(merged: Merged) -> None:
    refused = merged.refused_for_a_lost_branch()
    [command] = re.findall(r"`tpc (resolve [^`]*)`", str(refused))
    told = CliRunner().invoke(app, shlex.split(command))
    assert told.exit_code == 0, told.output
    merged.values["new"].append(50)
    merged.run("new", retire=["old"])
    assert merged.written == [1, 2, 3, 10, 20, 30, 40, 50]


def test_an_epoch_that_has_not_read_it_is_run_again_as_it_was_where_it_is_read_again(merged: Merged) -> None:
    merged.run("new", retire=["old"])
    merged.values["new"].append(50)
    merged.run_to("epoch.decided", "new")
    merged.lose_prepared()
    merged.values["old"].append(4)
    merged.run("old", "new")
    assert merged.watermarks[-3:-1] == [40, 40]
    assert merged.written == [1, 2, 3, 4, 10, 20, 30, 40, 50]


def test_an_epoch_in_which_it_had_nothing_is_run_again_as_it_was_without_it(merged: Merged) -> None:
    merged.values["new"].append(50)
    merged.run_to("epoch.decided", "old", "new")
    merged.lose_prepared()
    merged.run("new", retire=["old"])
    assert merged.watermarks[-2:] == [3, 3]
    assert merged.written == [1, 2, 3, 10, 20, 30, 40, 50]


def test_it_holds_back_no_event_time(merged: Merged) -> None:
    merged.values["new"].append(50)
    merged.run("new", retire=["old"])
    assert merged.watermarks[-1] == 40
    merged.values["new"].append(60)
    merged.run("new")
    assert merged.watermarks[-1] == 50


def test_event_time_does_not_go_back_when_it_is_read_again(merged: Merged) -> None:
    merged.run("new", retire=["old"])
    merged.values["new"].append(50)
    merged.run("new")
    merged.values["old"].append(4)
    merged.run_to("epoch.decided", "new", "old")
    assert merged.watermarks[-1] == 50
    merged.lose_prepared()
    merged.run("new", "old")
    assert merged.watermarks[-1] == 50
    merged.values["old"].append(70)
    merged.values["new"].append(60)
    merged.run("new", "old")
    assert merged.watermarks[-1] == 50
    merged.values["new"].append(80)
    merged.run("new", "old")
    assert merged.watermarks[-1] == 60


def test_event_time_does_not_go_back_when_one_takes_the_place_of_another(merged: Merged) -> None:
    merged.run("new", retire=["old"])
    merged.values["new"].append(50)
    merged.run("new")
    merged.values["old"].append(4)
    merged.run("old", retire=["new"])
    assert merged.watermarks[-1] == 50


def test_the_keys_of_a_retired_topic_stay_in_their_shards(tmp_path: Path) -> None:
    TopicPartitions(tmp_path).check({("old", "orders"): 2})
    with pytest.raises(ConfigurationError, match="'orders-v2' of source 'new' has 3, 'orders' of source 'old' has 2"):
        TopicPartitions(tmp_path).check({("new", "orders-v2"): 3})
    TopicPartitions(tmp_path).check({("new", "orders-v2"): 2})


def test_a_source_cannot_be_read_and_retired(merged: Merged) -> None:
    with pytest.raises(ConfigurationError, match="source 'old' is read and retired"):
        merged.run("old", "new", retire=["old"])
