"""The visits of `docs/examples/sessions.py`, cut into sessions by pandas from the input alone.

The last visit is a day later than all others, so that every other session is over in the end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

VISITS_PER_EPOCH = 200
PAGES = ("home", "shop", "cart", "help", "news")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
GAP = pd.Timedelta(minutes=30)
STRAY_S = 180
DAYS = 4
SESSION = ["username", "started", "ended", "pages", "favourite", "times"]


@dataclass(frozen=True)
class Input:
    """So many visits, in whole epochs; each user's are as far apart on the average, however many users there are."""

    visits: int
    users: int


WHOLE, SHORT = Input(1600, 24), Input(1200, 8)
"""An epoch takes as long as it has users: each asks the state by itself."""


def visits(size: Input = WHOLE) -> list[dict[str, Any]]:
    """In the order in which they are sent, up to three minutes from that of their times; a day and more of them."""
    rng = random.Random(27)
    sent: list[dict[str, Any]] = []
    step_s = 72 * WHOLE.users // size.users
    for number in range(size.visits):
        user = min(rng.randrange(size.users), rng.randrange(size.users))
        at = START + timedelta(seconds=step_s * number + rng.randrange(60))
        sent.append({"user": f"u{user}", "page": rng.choice(PAGES), "at": at})
    sent.sort(key=lambda one: one["at"] + timedelta(seconds=rng.randrange(STRAY_S)))
    return [*sent, {"user": "last", "page": "home", "at": START + timedelta(days=DAYS)}]


def feed(size: Input) -> None:
    """Topics, table and visits."""
    make_topics("visits", "sessions")
    make_tables(
        "CREATE TABLE sessions (username text, started timestamptz, ended timestamptz NOT NULL, pages text NOT NULL, "
        "favourite text NOT NULL, times bigint NOT NULL, PRIMARY KEY (username, started))"
    )
    write_messages("visits", ({**one, "at": one["at"].isoformat()} for one in visits(size)), key="user")


def sessions(size: Input) -> pd.DataFrame:
    """Every session that is over, with the page that its user has visited most by its end."""
    sent = pd.DataFrame(visits(size)[:-1]).sort_values(["user", "at"], ignore_index=True)
    begins = sent.groupby("user")["at"].diff().gt(GAP)
    sent["session"] = begins.astype("int64").groupby(sent["user"]).cumsum()
    of = sent.groupby(["user", "session"], as_index=False)
    rows = of.agg(started=("at", "min"), ended=("at", "max"), pages=("page", " ".join))
    counts = sent.groupby(["user", "session", "page"]).size().unstack(fill_value=0).groupby("user").cumsum()
    counts = counts[sorted(counts.columns)].reset_index(drop=True)  # of equal ones the first is the favourite
    found: pd.DataFrame = rows.assign(favourite=counts.idxmax(axis=1), times=counts.max(axis=1))
    renamed: pd.DataFrame = found.rename(columns={"user": "username"})
    return renamed


def expected(size: Input = WHOLE) -> dict[str, Any]:
    """Both sinks have every session."""
    rows = rows_of(sessions(size), SESSION)
    return {"kafka-sessions": rows, "postgres-sessions": rows}


def checks(place: Path) -> list[Check]:
    """Nothing came too late to be counted, and timers have closed sessions all along."""
    history = epoch_rows(Journal(log_of(place / "checkpoint")).open())
    late = sum(row["late"] for row in history)
    closing = [row["epoch"] for row in history if row["sinks"]["postgres-sessions"]["rows"]]
    largest, last = max(row["state"]["rows"] for row in history), history[-1]["state"]["rows"]
    return [
        Check("no visit was late", late == 0, f"{late} rows were dropped"),
        Check(
            "sessions were closed epoch after epoch",
            len(closing) > len(history) / 2,
            f"in {len(closing)} of {len(history)} epochs; the state has {largest} rows at most, {last} in the end",
        ),
    ]


def _program(size: Input) -> Program:
    return Program(
        "sessions",
        servers=("kafka", "postgres"),
        epochs=size.visits // VISITS_PER_EPOCH,
        feed=lambda _place: feed(size),
        expected=lambda: expected(size),
        checks=checks,
        quiet=1,
    )


PROGRAM, SHORT_PROGRAM = _program(WHOLE), _program(SHORT)
