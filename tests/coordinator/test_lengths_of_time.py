"""A length of time that nothing can count is refused where the user says it, and not in the first epoch or wait."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.program import Numbers
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.operations.supervision.restarts import ExponentialDelay, FailureRate, FixedDelay
from tpc.coordinator.service.state import StateSink
from tpc.errors import ConfigurationError
from tpc.sinks import EffectSink, FileSink, KafkaChangelog, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink
from tpc.sinks.postgres.source.source import PostgresSource
from tpc.sources import IterableSource, KafkaSource

NONE = [float("nan"), float("inf"), -float("inf"), -1.0, 1e300, "5", True, [5]]


def called(effect: Any) -> None:
    """Of an `EffectSink` that calls nothing here."""


TAKEN: dict[str, Callable[..., object]] = {
    "PostgresSink": partial(PostgresSink, "t", dsn="host=h"),
    "MongoSink": partial(MongoSink, "c", uri="mongodb://h/d"),
    "FileSink": partial(FileSink, "/files"),
    "KafkaSink": partial(KafkaSink, "topic", servers="h:9092"),
    "KafkaOffsetsSink": partial(KafkaOffsetsSink, "group", servers="h:9092"),
    "KafkaChangelog": partial(KafkaChangelog, "topic", servers="h:9092"),
    "EffectSink": partial(EffectSink, "effects", "/effects", call=called, key=["k"], guarantee="at-most-once"),
    "StateSink": partial(StateSink, "state", "/states"),
    "KafkaSource": partial(KafkaSource, "topic", servers="h:9092"),
    "PostgresSource": partial(PostgresSource, "t", dsn="host=h"),
    "ObjectLog": partial(ObjectLog, "memory://", prefix="p"),
    "SqlLog": partial(SqlLog, "sqlite:////log.db", pipeline="p"),
    "EngineSettings": EngineSettings,
    "FixedDelay": FixedDelay,
    "ExponentialDelay": ExponentialDelay,
    "FailureRate": FailureRate,
}
ENDLESS = {"reset_backoff_threshold_s", "interval_s"}
"""Infinity means something: never."""
SETTINGS = [
    (of, name) for of, made in TAKEN.items() for name in inspect.signature(made).parameters if name.endswith("_s")
]


@pytest.mark.parametrize("length_s", NONE, ids=repr)
@pytest.mark.parametrize(("of", "name"), SETTINGS)
def test_a_setting_that_is_no_length_of_time_is_refused(of: str, name: str, length_s: Any) -> None:
    if name in ENDLESS and length_s in (float("inf"), 1e300):
        TAKEN[of](**{name: length_s})
        return
    with pytest.raises(ConfigurationError, match=name):
        TAKEN[of](**{name: length_s})


def test_what_is_said_by_default_is_a_length_of_time() -> None:
    assert len(SETTINGS) > 25
    for made in TAKEN.values():
        made()


def ran(directory: Path, options: dict[str, Any], *, ttl: Any = None) -> None:
    service = tpc.service("numbers", directory=directory / "service")
    state = service.state("state", ttl=ttl)

    @service.each(service.read(IterableSource(range(4), name="numbers"), time=int))
    def kept(n: int, out: Any) -> None:
        state[n] = n
        out.row("rows", {"n": n})

    service.write("rows", {"n": int}).to(Numbers(directory).sink("even"))
    service.run(until_end=True, **options)


@pytest.mark.parametrize("length_s", [float("nan"), float("inf"), -1.0, 0.0, 1e-9, 1e15, 1e300], ids=repr)
def test_a_time_to_live_that_is_no_length_of_time_is_refused(length_s: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the time to live of the state state: ttl="):
        ran(tmp_path, {}, ttl=tpc.seconds(length_s))
    assert not (tmp_path / "even").exists()


@pytest.mark.parametrize("name", ["every", "standby"])
@pytest.mark.parametrize("length_s", [float("nan"), -1.0, -float("inf")], ids=repr)
def test_a_run_is_asked_for_lengths_of_time(name: str, length_s: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        ran(tmp_path, {name: tpc.seconds(length_s)})


def test_an_epoch_cannot_wait_without_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="every: seconds="):
        ran(tmp_path, {"every": tpc.seconds(float("inf"))})


@pytest.mark.parametrize("ttl_s", [0.001, 86_400.0 * 366 * 1000])
def test_the_shortest_and_the_longest_time_to_live_are_taken(ttl_s: float, tmp_path: Path) -> None:
    ran(tmp_path, {"every": 1}, ttl=tpc.seconds(ttl_s))
    assert Numbers(tmp_path).written("even") == [0, 1, 2, 3]
