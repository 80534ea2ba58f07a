"""The verdict's own judgement of the raw input: what is broken, late, paired, given up or waiting."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.flights.sent import Sent, rows


def flight(flight_id: str, time: str, origin: str = "JFK", **other: Any) -> dict[str, Any]:
    fields = {"flight_id": flight_id, "time": time, "carrier": "AA", "flight": 1, "origin": origin, "dest": "MIA"}
    return {**fields, "distance": 1000, "dep_delay": 5, "arr_delay": None, **other}


def report(time: str, origin: str = "JFK", temp: float | None = 40.5) -> dict[str, Any]:
    return {"origin": origin, "time": time, "temp": temp, "wind_speed": None, "visib": 10.0}


def sent(kafka: KafkaTopics, flights: list[Any], reports: list[Any], late: tuple[int, ...] = ()) -> Sent:
    flights_topic, weather_topic = kafka.topic(partitions=1), kafka.topic(partitions=1)
    for topic, values, are_late in ((flights_topic, flights, late), (weather_topic, reports, ())):
        kafka.produce(
            topic,
            [
                (
                    None,
                    json.dumps(value).encode() if isinstance(value, dict) else value,
                    0,
                    [("loader", b"late")] if index in are_late else [],
                )
                for index, value in enumerate(values)
            ],
        )
    return Sent(kafka.bootstrap, flights_topic, weather_topic)


def test_a_flight_gets_the_report_of_its_airport_and_hour(kafka: KafkaTopics) -> None:
    judged = sent(
        kafka,
        [flight("a", "2013-01-01T10:59:00Z")],
        [
            report("2013-01-01T10:00:00Z"),
            report("2013-01-01T11:00:00Z", temp=1.0),
            report("2013-01-01T10:00:00Z", "EWR"),
        ],
    )
    assert (judged.reports, judged.reports_used) == (3, 1)
    assert list(rows(judged.enriched)) == [
        ("a", "AA", 1, "JFK", "MIA", 1000, 5, None, 1357037940, 40.5, None, 10.0),
    ]


def test_broken_records_are_told_apart(kafka: KafkaTopics) -> None:
    good = flight("a", "2013-01-01T10:00:00Z")
    broken = [
        b'{"flight_id": "to',
        None,
        b"[1]",
        {**good, "origin": None},
        {**good, "time": "2013-13-01T10:00:00Z"},
        {**good, "distance": -1},
    ]
    judged = sent(kafka, [good, *broken], [report("2013-01-01T10:00:00Z"), report("2013-01-01T10:00:00Z", temp=9999.0)])
    assert Counter(judged.broken.values()) == {"unreadable": 3, "missing field": 1, "impossible value": 3}
    assert all(source.split("/")[1] == "0" for source in judged.broken)


def test_copies_count_and_late_ones_are_not_expected_anywhere(kafka: KafkaTopics) -> None:
    twice, late = flight("a", "2013-01-01T10:00:00Z"), flight("b", "2013-01-01T10:00:00Z")
    judged = sent(kafka, [twice, twice, late], [report("2013-01-01T10:00:00Z")], late=(2,))
    assert judged.copies == {"a": 2, "b": 1}
    assert judged.late == {"b"}
    assert [row[0] for row in rows(judged.enriched)] == ["a"]


def test_a_flight_without_report_is_given_up_when_the_slower_input_has_passed_its_hour(kafka: KafkaTopics) -> None:
    flights = [
        flight("passed", "2013-01-01T10:30:00Z", "LGA"),
        flight("waits", "2013-01-01T11:00:00Z", "LGA"),
        flight("newest", "2013-01-03T00:00:00Z", "LGA"),
    ]
    judged = sent(kafka, flights, [report("2013-01-01T22:00:00Z")])
    assert judged.without_report(given_up=True) == {"passed"}
    assert judged.without_report(given_up=False) == {"waits", "newest"}


def test_tallies_count_paired_flights_and_take_no_delay_for_none(kafka: KafkaTopics) -> None:
    flights = [
        flight("a", "2013-01-01T10:00:00Z", dep_delay=7),
        flight("b", "2013-01-01T10:00:00Z", dep_delay=None),
        flight("c", "2013-01-01T10:00:00Z", dep_delay=-3, carrier="UA"),
        flight("unpaired", "2013-01-01T10:00:00Z", "EWR"),
    ]
    judged = sent(kafka, flights, [report("2013-01-01T10:00:00Z")])
    assert judged.tallies("carrier") == {"AA": (2, 7), "UA": (1, -3)}
    assert judged.tallies("origin") == {"JFK": (3, 4)}
