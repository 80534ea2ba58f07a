"""The feed holds what it promises, and is the same every time."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.flights.data import (
    DUPLICATE_WITHIN_S,
    SHUFFLE_WINDOW_S,
    Event,
    Feed,
    make_feed,
)
from tpc.chaos.flights.topics import PARTITIONS, load
from tpc.errors import ConfigurationError

ROWS = 5_000


@pytest.fixture(scope="module")
def feed() -> Feed:
    return make_feed(ROWS)


def time_of(event: Event) -> float:
    text = json.loads(event.value or b"")["time"]
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()


def made(feed: Feed, kind: str) -> list[Event]:
    return [event for event in feed.flights if event.loader == kind]


@pytest.mark.slow
def test_the_same_feed_every_time(feed: Feed) -> None:
    assert make_feed(ROWS) == feed


@pytest.mark.slow
def test_another_seed_shuffles_otherwise(feed: Feed) -> None:
    assert [event.key for event in make_feed(ROWS, seed=2).flights] != [event.key for event in feed.flights]


def test_every_flight_is_there_with_an_id_of_its_own(feed: Feed) -> None:
    whole = [event for event in feed.flights if event.loader in ("", "late")]
    assert len({event.key for event in whole}) == len(whole) == ROWS


def test_records_stand_in_the_order_of_their_positions(feed: Feed) -> None:
    for events in (feed.flights, feed.weather):
        positions = [event.position_s for event in events]
        assert positions == sorted(positions)


def test_records_are_out_of_order_but_within_the_window(feed: Feed) -> None:
    lags = [event.position_s - time_of(event) for event in feed.flights if event.loader == ""]
    assert min(lags) >= 0
    assert SHUFFLE_WINDOW_S / 2 < max(lags) <= SHUFFLE_WINDOW_S
    times = [time_of(event) for event in feed.flights if event.loader == ""]
    assert times != sorted(times)


def test_a_duplicate_is_exact_and_comes_soon_after(feed: Feed) -> None:
    duplicates = made(feed, "duplicate")
    originals = {event.key: event for event in feed.flights if event.loader == ""}
    assert duplicates
    for duplicate in duplicates:
        original = originals[duplicate.key]
        assert duplicate.value == original.value
        assert 0 < duplicate.position_s - original.position_s <= DUPLICATE_WITHIN_S


def test_late_records_come_far_behind_the_watermark_under_every_batching(feed: Feed) -> None:
    late = made(feed, "late")
    assert late
    # Lateness counts against what was seen two batches ago, and a batch is at most an eighth of the topic.
    two_batches = len(feed.flights) // 4
    times = [time_of(e) if e.loader in ("", "late") else 0.0 for e in feed.flights]
    for index, event in enumerate(feed.flights):
        if event.loader == "late":
            newest_time_before = max(times[: index - two_batches])
            assert time_of(event) < newest_time_before - timedelta(hours=12).total_seconds()


def test_every_kind_of_damage_is_there_and_cannot_be_used(feed: Feed) -> None:
    kinds = Counter(event.loader for event in [*feed.flights, *feed.weather])
    for kind in ("torn", "without id", "without time", "month 13", "hotter than the sun"):
        assert kinds[kind] >= 1, kind
    for event in made(feed, "torn"):
        with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
            json.loads(event.value or b"")


@pytest.mark.parametrize("rows", [0, 1_999, 336_777])
def test_a_number_of_rows_that_makes_no_demo_is_refused(rows: int) -> None:
    with pytest.raises(ConfigurationError, match="flights were asked for"):
        make_feed(rows)


def test_what_is_loaded_is_what_can_be_read_back_in_step(feed: Feed, kafka: KafkaTopics) -> None:
    flights, weather = kafka.name("flights"), kafka.name("weather")
    load(feed, kafka.bootstrap, flights_topic=flights, weather_topic=weather)
    records = list(read_topic(kafka.bootstrap, flights))
    assert Counter((r.key, r.value, r.headers.get("loader", "")) for r in records) == Counter(
        (e.key, e.value, e.loader) for e in feed.flights
    )
    sizes = Counter(r.partition for r in records)
    assert len(sizes) == PARTITIONS
    assert max(sizes.values()) - min(sizes.values()) <= 1


def test_a_topic_that_is_there_already_is_refused(feed: Feed, kafka: KafkaTopics) -> None:
    flights, weather = kafka.topic("flights"), kafka.name("weather")
    with pytest.raises(ConfigurationError, match="already there"):
        load(feed, kafka.bootstrap, flights_topic=flights, weather_topic=weather)
