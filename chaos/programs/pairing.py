"""The events of `docs/examples/pairing.py` and `pairing_loop.py`, paired by pandas: the same input for both programs.

Two days. What of the first day waits at its end has no partner once the second has begun, on which every event has one;
so nothing waits in the end. The topic has one partition: what is late is so by the order of the messages.
"""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.service_state import count_keys
from tpc.chaos.programs.consumer_groups import group_at_end
from tpc.chaos.programs.feeding import make_tables, make_topics, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

TIMESTAMPS = 1100
"""One every `STEP_S` seconds of the first day."""
STEP_S = 15
SECOND_DAY = 120
"""Timestamps of it: more events than an epoch has."""
DISORDER_S = 180
LATE_S = 3 * 3600
"""The partner of a late event was given up many epochs before."""
EVENTS_PER_EPOCH = 200
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
NO_PARTNER = "no partner within 5 minutes"
NO_EVENT = [{"type": "C", "time": "yesterday", "value": number} for number in range(3)]

Event = dict[str, Any]


def arrivals() -> list[tuple[float, Event]]:
    """(when it arrives, in seconds from the start; event), in the order in which they are sent."""
    rng = random.Random(30)
    sent: list[tuple[float, Event]] = []
    for second in range(0, TIMESTAMPS * STEP_S, STEP_S):
        [kind] = rng.choices(["AB", "A", "B", "late"], [84, 6, 6, 4])
        if kind == "late" and second + LATE_S >= TIMESTAMPS * STEP_S:
            kind = "AB"
        for letter in "AB" if kind == "late" else kind:
            delay_s = LATE_S if kind == "late" and letter == "B" else rng.uniform(0, DISORDER_S)
            sent.append((second + delay_s, _event(rng, letter, second)))
    for second in range(86400, 86400 + SECOND_DAY * STEP_S, STEP_S):
        sent += [(second, _event(rng, letter, second)) for letter in rng.sample("AB", 2)]
    return sorted(sent, key=lambda one: one[0])


def _event(rng: random.Random, letter: str, second: int) -> Event:
    time = START + timedelta(seconds=second)
    return {"type": letter, "time": time.isoformat(), "value": rng.randint(-1000, 1000)}


def _feed(name: str, table: str) -> None:
    topics = [f"{name}.{word}" for word in ("events", "pairs", "rejected")]
    make_topics(*topics, partitions=1)
    make_tables(
        f"CREATE TABLE {table} (time timestamptz PRIMARY KEY, a bigint NOT NULL, b bigint NOT NULL, "
        "total bigint NOT NULL)"
    )
    messages = [event for _, event in arrivals()]
    write_messages(topics[0], [*messages[:500], *NO_EVENT, *messages[500:]], key="time")


def outcomes() -> tuple[pd.DataFrame, pd.DataFrame]:
    """By time A and B of all events but late ones, NaN where one is missing; and the late ones."""
    sent = pd.DataFrame([{**event, "arrives_s": arrives_s} for arrives_s, event in arrivals()])
    sent["time"] = pd.to_datetime(sent["time"])
    is_late = sent["arrives_s"] - (sent["time"] - START).dt.total_seconds() >= LATE_S
    both: pd.DataFrame = sent[~is_late].pivot(index="time", columns="type", values="value")
    late: pd.DataFrame = sent[is_late].pivot(index="time", columns="type", values="value")
    return both, late.reindex(columns=["A", "B"])


def pairs() -> list[Event]:
    """Every pair with its sum."""
    found = outcomes()[0].dropna().astype("int64")
    found["total"] = found["A"] + found["B"]
    rows = zip(found.index, *(found[name].tolist() for name in ("A", "B", "total")), strict=True)
    return [{"time": time.to_pydatetime(), "a": a, "b": b, "total": total} for time, a, b, total in rows]


def alone(frame: pd.DataFrame) -> list[Event]:
    """The rejections of the events in a frame that have no partner there."""
    left = frame[frame.isna().any(axis=1)]
    rows = zip(left.index, left["A"], left["B"], strict=True)
    return [
        {"time": time.to_pydatetime(), "a": _plain(a), "b": _plain(b), "text": None, "reason": NO_PARTNER}
        for time, a, b in rows
    ]


def _plain(value: float) -> int | None:
    return None if pd.isna(value) else int(value)


def _expected(name: str, table: str, rejected: list[Event]) -> dict[str, list[Event]]:
    unreadable = [{"text": json.dumps(one), "reason": "not an event"} for one in NO_EVENT]
    by_sink = dict.fromkeys((f"kafka-{name}.pairs", f"postgres-{table}"), pairs())
    return {**by_sink, f"kafka-{name}.rejected": [*rejected, *unreadable]}


def _expected_by_spark() -> dict[str, Any]:
    """A late event is dropped behind the watermark."""
    return _expected("pairing", "pairs", alone(outcomes()[0]))


def _expected_by_service() -> dict[str, Any]:
    """A late event has no partner any more, and is rejected like all that have none."""
    both, late = outcomes()
    expected = _expected("pairing-loop", "loop_pairs", alone(both) + alone(late))
    return {**expected, "files": expected["postgres-loop_pairs"]}


def _checks_of_spark(place: Path) -> list[Check]:
    """Late events, and no others, are counted as dropped; the group has gone with the epochs."""
    sent = len(outcomes()[1])
    counted = sum(row["late"] for row in epoch_rows(Journal(log_of(place / "checkpoint")).open()))
    late = Check("what was late is counted", counted == sent > 0, f"{counted} rows dropped, {sent} late events sent")
    return [late, group_at_end("pairing", "pairing.events")]


def _checks_of_service(place: Path) -> list[Check]:
    """The state is given back; the group has gone with the epochs."""
    left = count_keys(place / "service" / "state" / "waiting.db", "pairing-loop")
    waits = Check("nothing waits in the end", left == 0, f"{left} events wait")
    return [waits, group_at_end("pairing-loop", "pairing-loop.events")]


PROGRAM = Program(
    "pairing",
    servers=("kafka", "postgres"),
    epochs=10,
    feed=lambda _place: _feed("pairing", "pairs"),
    expected=_expected_by_spark,
    checks=_checks_of_spark,
)

LOOP = Program(
    "pairing_loop",
    servers=("kafka", "postgres"),
    epochs=10,
    feed=lambda _place: _feed("pairing-loop", "loop_pairs"),
    expected=_expected_by_service,
    checks=_checks_of_service,
    checked=("waiting",),
    events_per_epoch=EVENTS_PER_EPOCH,
)
