"""The demo's input: a year of flights and of hourly weather reports as the events of two topics.

The rows are real (`real_rows`). This module makes a stream of them as streams are: in event time but shuffled within a
bounded window, with exact duplicates, with records that come long after the watermark, and with broken ones.
All of it follows from a seed.

What was done to a record is in its Kafka header `loader` (`late`, `duplicate` or the kind of damage), so that a
check can tell what was intended; the pipeline does not look at headers. What the pipeline does with the records stands
in `pipeline`, what must happen to them in `verdict`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.chaos.flights.real_rows import ALL_FLIGHTS, first_flights, reports_for
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy
    import pandas

MIN_FLIGHTS = 2_000
"""Two days of flights: fewer, and the watermark would not come past the late records' event time."""

SHUFFLE_WINDOW_S = 6 * 3600
"""How far behind its place in event time a record may stand in its topic. Less than the pipeline's watermark delay."""
DUPLICATE_WITHIN_S = 3 * 3600
"""How far behind the record itself its duplicate may stand."""

LATE, DUPLICATES, BROKEN_FLIGHTS, BROKEN_REPORTS = 200, 300, 240, 60
"""How many of each kind for the whole year; a smaller excerpt gets its share, but at least a few."""

SEED = 20130101

INTEGERS = ("flight", "distance", "dep_delay", "arr_delay")
MEASUREMENTS = ("temp", "wind_speed", "visib")


@dataclass(frozen=True)
class Event:
    """One record of a topic: where it is in the stream (seconds since 1970), and its bytes."""

    position_s: float
    key: bytes | None
    value: bytes | None
    loader: str = ""


@dataclass(frozen=True)
class Feed:
    """Both topics' records, in the order in which they arrive."""

    flights: Sequence[Event]
    weather: Sequence[Event]

    def __len__(self) -> int:
        return len(self.flights) + len(self.weather)


def make_feed(rows: int = ALL_FLIGHTS, seed: int = SEED) -> Feed:
    """The first `rows` flights in event time with the weather of their time, disturbed.

    Raises `ConfigurationError` for a number of rows that cannot carry the demo.
    """
    import numpy

    if not MIN_FLIGHTS <= rows <= ALL_FLIGHTS:
        raise ConfigurationError(
            f"{rows} flights were asked for; there are {ALL_FLIGHTS}, and fewer than {MIN_FLIGHTS} make no stream",
            remedy=f"choose a number between {MIN_FLIGHTS} and {ALL_FLIGHTS}.",
        )
    rng = numpy.random.default_rng(seed)
    flights = first_flights(rows)
    reports = reports_for(flights)
    share = rows / ALL_FLIGHTS
    return Feed(_disturbed_flights(flights, share, rng), _disturbed_reports(reports, share, rng))


def _disturbed_flights(frame: pandas.DataFrame, share: float, rng: numpy.random.Generator) -> list[Event]:
    events = [
        Event(position, values["flight_id"].encode(), as_json(values))
        for values, position in zip(_flight_values(frame), _shuffled_positions(frame["departure"], rng), strict=True)
    ]
    begin, end = events[0].position_s, events[-1].position_s
    late = _count(LATE, share)
    # Late records have event times from the first flights on and stand in the second half of the topic: days or
    # months behind the watermark, however the batches are cut (an eighth of the topic at the most).
    for index in range(late):
        place = begin + (end - begin) * (0.5 + 0.5 * (index + 1) / (late + 1))
        events[index] = Event(place, events[index].key, events[index].value, "late")
    chosen = rng.choice(range(late, len(events)), size=_count(DUPLICATES, share), replace=False)
    events += [
        Event(events[i].position_s + rng.uniform(1, DUPLICATE_WITHIN_S), events[i].key, events[i].value, "duplicate")
        for i in chosen
    ]
    chosen = rng.choice(range(late, len(frame)), size=_count(BROKEN_FLIGHTS, share), replace=False)
    events += _broken([events[i] for i in chosen], BROKEN_FLIGHT_KINDS)
    return sorted(events, key=_place)


def _disturbed_reports(frame: pandas.DataFrame, share: float, rng: numpy.random.Generator) -> list[Event]:
    events = [
        Event(position, None, as_json(values))
        for values, position in zip(_report_values(frame), _shuffled_positions(frame["hour"], rng), strict=True)
    ]
    chosen = rng.choice(len(events), size=_count(BROKEN_REPORTS, share), replace=False)
    return sorted([*events, *_broken([events[i] for i in chosen], BROKEN_REPORT_KINDS)], key=_place)


def _shuffled_positions(times: pandas.Series[Any], rng: numpy.random.Generator) -> list[float]:
    seconds = times.astype("int64") / 1e9
    positions: list[float] = (seconds + rng.uniform(0, SHUFFLE_WINDOW_S, len(times))).tolist()
    return positions


def _count(for_the_year: int, share: float) -> int:
    return max(5, round(for_the_year * share))


def _place(event: Event) -> float:
    return event.position_s


def _flight_values(frame: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    columns = ["flight_id", "carrier", "flight", "origin", "dest", "distance", "dep_delay", "arr_delay"]
    times = frame["departure"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    for time, row in zip(times, frame[columns].to_dict("records"), strict=True):
        numbers = {name: None if math.isnan(row[name]) else int(row[name]) for name in INTEGERS}
        yield {"flight_id": row["flight_id"], "time": time, **{str(k): v for k, v in row.items()}, **numbers}


def _report_values(frame: pandas.DataFrame) -> Iterator[dict[str, Any]]:
    for row in frame[["origin", "time_hour", *MEASUREMENTS]].to_dict("records"):
        measured = {name: None if math.isnan(row[name]) else float(row[name]) for name in MEASUREMENTS}
        yield {"origin": row["origin"], "time": row["time_hour"], **measured}


def _broken(models: Iterable[Event], kinds: Mapping[str, Damage]) -> Iterator[Event]:
    """A damaged copy right behind each of `models`, the kinds in turn; the whole record stays where it is."""
    for index, model in enumerate(models):
        kind = list(kinds)[index % len(kinds)]
        assert model.value is not None
        yield Event(model.position_s + 1, None, kinds[kind](json.loads(model.value)), kind)


# The kinds of broken records in the demo's input, and how a record is written and broken.


def as_json(values: Mapping[str, Any]) -> bytes:
    """A whole record's value."""
    return json.dumps(values, separators=(",", ":")).encode()


Damage = Callable[[dict[str, Any]], bytes | None]


def _without(field: str) -> Damage:
    return lambda values: as_json({name: value for name, value in values.items() if name != field})


def _with(field: str, value: Any) -> Damage:
    return lambda values: as_json({**values, field: value})


BROKEN_FLIGHT_KINDS: Mapping[str, Damage] = {
    "torn": lambda values: as_json(values)[:-20],
    "empty": lambda _values: None,
    "without origin": _without("origin"),
    "without id": _without("flight_id"),
    "month 13": _with("time", "2013-13-01T10:00:00Z"),
    "negative distance": _with("distance", -1),
}

BROKEN_REPORT_KINDS: Mapping[str, Damage] = {
    "torn": lambda values: as_json(values)[:-20],
    "without time": _without("time"),
    "hotter than the sun": _with("temp", 10_000.0),
}
