"""Event time of a whole service: what is no time, a changed time to live, stamps from the future, idle sources."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry

import tpc
from tests.coordinator.service.program import Die
from tests.coordinator.service.test_cut_and_time import Tally
from tpc import failpoints
from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.status_lines import status_lines
from tpc.coordinator.operations.monitoring.epoch_report import event_time_of
from tpc.coordinator.operations.monitoring.metrics import Metrics
from tpc.coordinator.service.epoch_input import time_of, times_to_live_of
from tpc.errors import ConfigurationError, DataError
from tpc.manifest import Manifest
from tpc.sinks import FileSink
from tpc.sources import IterableSource
from tpc.time_to_live import TimeToLive
from tpc.watermark import TIME_MAX_MS

YEAR_2100_MS = 4_102_444_800_000
each_kind = pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])


def manifests(directory: Path) -> Mapping[int, Manifest]:
    return Journal(LocalLog(directory / "service" / "tpc" / "log")).open().manifests


@pytest.mark.parametrize("value", [1000.5, True, None, datetime(2024, 1, 1, tzinfo=timezone.utc), TIME_MAX_MS + 1])
@pytest.mark.parametrize("ttl_s", [None, 10.0])
def test_what_is_no_time_is_refused_with_or_without_a_time_to_live(
    value: Any, ttl_s: float | None, tmp_path: Path
) -> None:
    tally = Tally(tmp_path, ttl_s=ttl_s)
    tally.values = [("a", 1_000), ("b", value)]
    with pytest.raises(DataError, match=r"the time of an event of source 'values' is"):
        tally.run(every=2)
    assert tally.rows() == []
    tally.values[1] = ("b", 2_000)
    tally.run(every=2)
    assert tally.rows() == [("a", 1, "a"), ("b", 1, "ab")]


# A changed time to live ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize(
    ("before_s", "after_s", "left"),
    [
        (10.0, None, "ab"),  # it is removed: nothing ends any more
        (10.0, 3600.0, "ab"),  # raised
        (3600.0, 10.0, ""),  # lowered
        (60.0, 48.0, "b"),  # a second makes the difference
        (None, 10.0, ""),  # added: what was there counts from the epoch that has it first, whose watermark is 2,000
        (None, 3600.0, "ab"),
    ],
)
def test_entries_live_by_the_time_to_live_that_the_program_has(
    kind: Any, before_s: float | None, after_s: float | None, left: str, tmp_path: Path
) -> None:
    tally = Tally(tmp_path, kind, ttl_s=before_s)
    tally.values = [("a", 1_000), ("b", 2_000)]
    tally.run()
    tally.ttl_s = after_s
    tally.values += [("x", 49_500), ("x", 49_501)]
    tally.run()
    assert tally.rows()[-1] == ("x", 2, f"{left}x")
    before_ms, after_ms = (None if each is None else round(each * 1000) for each in (before_s, after_s))
    lives = [times_to_live_of(manifest)["tally"] for _, manifest in sorted(manifests(tmp_path).items())]
    first, second = TimeToLive(before_ms, before_ms), TimeToLive(after_ms, after_ms)
    assert lives == [first, first, TimeToLive(after_ms, before_ms), second]


@each_kind
def test_a_time_to_live_that_comes_back_is_as_if_it_had_never_gone(kind: Any, tmp_path: Path) -> None:
    tally = Tally(tmp_path, kind, ttl_s=100.0)
    tally.values = [("a", 1_000), ("b", 2_000)]
    for ttl_s, at in ((10.0, 3_000), (50.0, 4_000), (100.0, 5_000)):
        tally.run()
        tally.ttl_s = ttl_s
        tally.values.append(("x", at))
    tally.run()
    tally.values += [("y", 101_500), ("y", 101_501)]
    tally.run()
    assert [row[2] for row in tally.rows()][-2:] == ["abxy", "bxy"]


def test_an_epoch_that_changes_the_time_to_live_is_run_again_with_what_it_recorded(tmp_path: Path) -> None:
    tally = Tally(tmp_path, ttl_s=100.0)
    tally.values = [("a", 1_000), ("b", 40_000)]
    tally.run()
    tally.values.append(("c", 50_000))
    tally.ttl_s = 20.0
    _lose_the_rows_of(tally, epoch=2)
    tally.ttl_s = 3600.0  # the program has changed once more before the lost rows are written
    tally.run()
    assert tally.rows()[-1] == ("c", 1, "bc")
    tally.values.append(("d", 59_000))
    tally.run()
    assert tally.rows()[-1] == ("d", 1, "bcd")


def _lose_the_rows_of(tally: Tally, epoch: int) -> None:
    """It dies when that epoch is decided, and what the files have prepared of it is gone."""

    def lose(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == epoch:
            for path in (tally.directory / "out").rglob("*.parquet"):
                if path.parent != tally.directory / "out":
                    path.unlink()
            raise Die(step)

    failpoints.install({"epoch.decided": lose})
    try:
        with pytest.raises(Die):
            tally.run()
    finally:
        failpoints.install({})


# Stamps from the future ----------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("every", [1, 8])
def test_a_stamp_from_the_future_ends_nothing_and_is_told_once(
    kind: Any, every: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ms = 1_700_000_000_000
    tally = Tally(tmp_path, kind, ttl_s=3600.0)
    tally.values = [("ann", ms), ("bob", ms + 1), ("ann", ms + 2), ("bad", YEAR_2100_MS), ("ann", ms + 3)]
    tally.values += [("bad", YEAR_2100_MS + 1), ("bob", ms + 4), ("ann", ms + 5)]
    with caplog.at_level(logging.WARNING):
        tally.run(every)
        tally.values += [("ann", ms + 1_000)]
        tally.run(every)
    assert [n for key, n, _ in tally.rows() if key == "ann"] == [1, 2, 3, 4, 5]
    told = [record.message for record in caplog.records if "does not move the watermark" in record.message]
    assert len(told) == 1
    assert "an event of source 'values' has the time 2100-01-01 00:00:00 UTC" in told[0]
    times = [time_of(manifest) for _, manifest in sorted(manifests(tmp_path).items())]
    assert sum(source.too_far for time in times for source in time.sources) == 2
    assert times[-1].reached_ms == ms + 1_000


def test_what_a_stamp_from_the_future_wrote_ends_by_the_bound(tmp_path: Path) -> None:
    tally = Tally(tmp_path, ttl_s=10.0)
    tally.values = [("bad", YEAR_2100_MS)]
    tally.run()
    [time] = [time_of(manifest) for manifest in manifests(tmp_path).values()]
    assert time.now_ms is not None
    tally.values += [("x", time.now_ms + 3_600_000 + 10_001), ("x", time.now_ms + 3_600_000 + 10_002)]
    tally.read = {"ahead_max": tpc.seconds(10_000)}
    tally.run()
    assert tally.rows()[-1] == ("x", 2, "x")


def test_an_epoch_is_run_again_with_the_bound_that_it_had(tmp_path: Path) -> None:
    tally = Tally(tmp_path, ttl_s=10.0)
    tally.values = [("a", 1_000), ("bad", YEAR_2100_MS), ("b", 2_000)]
    _lose_the_rows_of(tally, epoch=1)
    tally.read = {"ahead_max": tpc.seconds(86_400 * 366 * 500)}
    tally.run()
    assert tally.rows() == [("a", 1, "a"), ("bad", 1, "abad"), ("b", 1, "abbad")]


# Idle sources --------------------------------------------------------------------------------------------------------


class Two:
    """One source that falls silent, and one that goes on."""

    def __init__(self, directory: Path, idle_after_s: float | None) -> None:
        self.directory, self.idle_after_s = directory, idle_after_s
        self.quiet: list[tuple[str, int]] = [("q", 1_000)]
        self.busy = [(f"b{n}", 1_000 + n * 1_000) for n in range(200)]

    def run(self, every: int = 10) -> None:
        idle = {} if self.idle_after_s is None else {"idle_after": tpc.seconds(self.idle_after_s)}
        service = tpc.service("two", directory=self.directory / "service")
        quiet = service.read(IterableSource(lambda: self.quiet, name="quiet"), time=lambda event: event[1], **idle)
        busy = service.read(IterableSource(lambda: self.busy, name="busy"), time=lambda event: event[1])
        kept: Any = service.state("kept", ttl=tpc.seconds(10))

        @service.each(quiet, busy)
        def count(event: Any, out: Any) -> None:
            kept[event[0]] = 1
            out.row("rows", {"key": event[0], "n": len(kept), "watermark": out.watermark_ms})

        service.write("rows", {"key": str, "n": int, "watermark": int}).to(FileSink(self.directory / "out", name="out"))
        service.run(every=every, until_end=True)

    def last(self) -> Any:
        """The row of the last event."""
        rows = [row for path in (self.directory / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        [last] = [row for row in rows if row["key"] == self.busy[-1][0]]
        return last


def test_a_source_without_events_holds_everything_back(tmp_path: Path) -> None:
    two = Two(tmp_path, None)
    two.run()
    assert (two.last()["n"], two.last()["watermark"]) == (201, 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [[("q", 1_000)], []], ids=["one event", "never an event"])
def test_an_idle_source_holds_nothing_back_and_one_that_wakes_moves_nothing_back(
    quiet: list[tuple[str, int]], tmp_path: Path
) -> None:
    two = Two(tmp_path, 0.001)
    two.quiet = quiet
    two.run()
    assert two.last()["watermark"] >= 189_000
    assert two.last()["n"] <= 12
    times = [time_of(manifest) for _, manifest in sorted(manifests(tmp_path).items())]
    assert times[-1].idle == {"quiet"}
    reached_ms = times[-1].reached_ms
    assert reached_ms == 200_000
    two.quiet = [*quiet, ("late", 5_000)]
    two.busy += [("c", 201_000)]
    two.run(every=1)
    woken = [time_of(manifest) for _, manifest in sorted(manifests(tmp_path).items())][len(times) :]
    assert all(time.watermark_ms is not None and time.watermark_ms >= reached_ms for time in woken)


def test_lengths_of_time_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    service = tpc.service("two", directory=tmp_path)
    wrong: list[dict[str, Any]] = [{"idle_after": 0}, {"ahead_max": -1}, {"ahead_max": float("nan")}]
    for number, said in enumerate(wrong):
        with pytest.raises(ConfigurationError, match=min(said)):
            service.read(IterableSource([1], name=f"v{number}"), time=int, **said)
    with pytest.raises(ConfigurationError, match="its events have no time"):
        service.read(IterableSource([1]), idle_after=tpc.seconds(1))


def test_status_says_how_far_event_time_has_come(tmp_path: Path) -> None:
    two = Two(tmp_path, 0.001)
    two.busy = [*two.busy[:20], ("far", YEAR_2100_MS)]
    two.run(every=7)
    told = actions.status(LocalLog(tmp_path / "service" / "tpc" / "log"), None)
    assert told["event_time"]["watermark_ms"] == 20_000
    assert (told["event_time"]["idle"], told["event_time"]["too_far"]) == (["quiet"], {"busy": 1})
    lines = status_lines(told)
    assert "watermark 1970-01-01 00:00:20 UTC" in lines
    assert "idle sources, which do not hold it back: quiet" in lines
    assert any(line.startswith("source busy: 1 events of the last epoch are too far ahead") for line in lines)


def test_metrics_say_it_too(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    two = Two(tmp_path, 0.001)
    two.busy = [*two.busy[:20], ("far", YEAR_2100_MS)]
    two.run(every=7)
    metrics = Metrics(registry, "two", ["out"], SystemClock())
    history = Journal(LocalLog(tmp_path / "service" / "tpc" / "log")).open()
    assert history.last_complete is not None
    metrics._count_event_time(event_time_of(history.manifests[history.last_complete]))
    assert registry.get_sample_value("tpc_watermark_timestamp_seconds", {"pipeline": "two"}) == 20.0
    assert registry.get_sample_value("tpc_idle_sources", {"pipeline": "two"}) == 1
    labels = {"pipeline": "two", "source": "busy"}
    assert registry.get_sample_value("tpc_too_far_events_total", labels) == 1
