"""What the input topics of the main job hold, and what must happen to it: computed with pandas, by rules of its own.

Nothing of the pipeline is used here: a second opinion that shared code with the first would share its mistakes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.kafka_content import KafkaRecord, read_topic
from tpc.chaos.flights.topics import FLIGHTS_TOPIC, WEATHER_TOPIC

if TYPE_CHECKING:
    import pandas

WATERMARK_DELAY_S = 12 * 3600

FLIGHT_FIELDS = ("flight_id", "carrier", "flight", "origin", "dest", "distance", "dep_delay", "arr_delay")
REPORT_FIELDS = ("temp", "wind_speed", "visib")
ENRICHED_FIELDS = (*FLIGHT_FIELDS, "time", *REPORT_FIELDS)
"""The order of the fields in every row that is compared; `time` is in seconds since 1970."""

MAY_BE_MISSING: Mapping[str, type[int] | type[float]] = {
    **dict.fromkeys(("dep_delay", "arr_delay"), int),
    **dict.fromkeys(REPORT_FIELDS, float),
}
"""Columns that pandas makes floats of because of missing values, with what they are."""

Row = tuple[Any, ...]


class Sent:
    """What the input topics hold, judged record by record."""

    def __init__(self, servers: str, flights_topic: str = FLIGHTS_TOPIC, weather_topic: str = WEATHER_TOPIC) -> None:
        self.broken: dict[str, str] = {}
        self.copies: Counter[str] = Counter()
        self.late: set[str] = set()
        self._flights: dict[str, dict[str, Any]] = {}
        self._reports: list[dict[str, Any]] = []
        for record in read_topic(servers, flights_topic):
            flight = self._judged(record, _why_no_flight)
            if flight is not None:
                flight_id = flight["flight_id"]
                self.copies[flight_id] += 1
                self._flights[flight_id] = flight
                if record.headers.get("loader") == "late":
                    self.late.add(flight_id)
        for record in read_topic(servers, weather_topic):
            report = self._judged(record, _why_no_report)
            if report is not None:
                self._reports.append(report)

    def _judged(self, record: KafkaRecord, why: Callable[[dict[str, Any]], str | None]) -> dict[str, Any] | None:
        """The record's fields, or None after taking down why it cannot be used."""
        try:
            fields = json.loads(record.value) if record.value is not None else None
        except ValueError:
            fields = None
        reason = why(fields) if isinstance(fields, dict) else "unreadable"
        if reason is None and isinstance(fields, dict):
            return fields
        self.broken[f"{record.topic}/{record.partition}/{record.offset}"] = str(reason)
        return None

    @cached_property
    def _paired_or_not(self) -> pandas.DataFrame:
        """Every flight that was in time, with its report where there is one (`_merge` says so)."""
        import pandas

        flights = pandas.DataFrame([f for f in self._flights.values() if f["flight_id"] not in self.late])
        reports = pandas.DataFrame(self._reports)
        flights["time"] = seconds(flights["time"])
        flights["hour"] = flights["time"] // 3600 * 3600
        reports["hour"] = seconds(reports.pop("time"))
        merged: pandas.DataFrame = flights.merge(reports, on=["origin", "hour"], how="left", indicator=True)
        return merged

    @cached_property
    def enriched(self) -> pandas.DataFrame:
        """The flights that have a report, with it."""
        frame: pandas.DataFrame = self._paired_or_not[self._paired_or_not["_merge"] == "both"]
        return frame

    @cached_property
    def watermark_s(self) -> int:
        """Where the watermark is in the end: the slower input's newest hour, less the delay."""
        import pandas

        flights = pandas.Series([flight["time"] for flight in self._flights.values()])
        reports = pandas.Series([report["time"] for report in self._reports])
        newest = min(int(seconds(times).max()) // 3600 * 3600 for times in (flights, reports))
        return newest - WATERMARK_DELAY_S

    @cached_property
    def reports_used(self) -> int:
        """How many weather reports have at least one flight."""
        return len(self.enriched.groupby(["origin", "hour"]))

    @property
    def reports(self) -> int:
        """How many usable weather reports were sent."""
        return len(self._reports)

    def without_report(self, *, given_up: bool) -> set[str]:
        """The flights without a report that the watermark has passed (`given_up`), or that still wait for one."""
        frame = self._paired_or_not
        passed = frame["hour"] <= self.watermark_s
        return set(frame.loc[(frame["_merge"] == "left_only") & (passed == given_up), "flight_id"])

    def tallies(self, by: str) -> dict[str, tuple[int, int]]:
        """Number of enriched flights and sum of their departure delays (none counts as 0), by a column."""
        grouped = self.enriched.assign(delay=self.enriched["dep_delay"].fillna(0)).groupby(by)["delay"]
        sums = grouped.agg(["count", "sum"]).itertuples()
        return {str(key): (int(count), int(total)) for key, count, total in sums}


def _why_no_flight(fields: dict[str, Any]) -> str | None:
    required = ("flight_id", "time", "carrier", "flight", "origin", "dest", "distance")
    if any(fields.get(name) is None for name in required):
        return "missing field"
    return "impossible value" if not _is_time(fields["time"]) or fields["distance"] <= 0 else None


def _why_no_report(fields: dict[str, Any]) -> str | None:
    if fields.get("origin") is None or fields.get("time") is None:
        return "missing field"
    temp = fields.get("temp")
    possible = _is_time(fields["time"]) and (temp is None or -130 <= temp <= 140)
    return None if possible else "impossible value"


def _is_time(text: str) -> bool:
    # Ten times as fast as strptime, which would take seconds of the verdict.
    try:
        datetime.fromisoformat(text[:-1])
    except ValueError:
        return False
    return len(text) == len("2013-01-01T10:00:00Z") and text.endswith("Z")


def seconds(times: pandas.Series[Any]) -> pandas.Series[Any]:
    """Times as text or timestamps in whole seconds since 1970."""
    import pandas

    parsed = pandas.to_datetime(times, utc=True, format="ISO8601")
    since: pandas.Series[Any] = (parsed - pandas.Timestamp(0, tz="UTC")) // pandas.Timedelta(seconds=1)
    return since


def rows(frame: pandas.DataFrame) -> Iterator[Row]:
    """The rows of a frame in the order of `ENRICHED_FIELDS`, missing values as None, whole numbers as int."""
    columns = []
    for name in ENRICHED_FIELDS:
        values, there = frame[name].tolist(), frame[name].notna().tolist()
        if name in MAY_BE_MISSING:
            kind = MAY_BE_MISSING[name]
            values = [kind(value) if is_there else None for value, is_there in zip(values, there, strict=True)]
        columns.append(values)
    return zip(*columns, strict=True)
