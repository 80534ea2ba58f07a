"""What Spark itself says of a session: its event log, read while it is being written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]
SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""With `spark.eventLog.dir`, which must be there."""


def read(directory: Path) -> list[Event]:
    """All events that are whole, of the one session whose log lies in `directory`."""
    logs = list(directory.iterdir())
    if not logs:
        return []
    [log] = logs
    return _whole(log)


def of_sessions(directory: Path) -> list[list[Event]]:
    """The same of every session whose log lies in `directory`, in the order of their names."""
    return [_whole(log) for log in sorted(directory.iterdir())]


def _whole(log: Path) -> list[Event]:
    lines = log.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1] if line]


def executors(events: Sequence[Event]) -> int:
    """How many are registered."""
    there: set[str] = set()
    for event in events:
        if event["Event"] == "SparkListenerExecutorAdded":
            there.add(event["Executor ID"])
        elif event["Event"] == "SparkListenerExecutorRemoved":
            there.discard(event["Executor ID"])  # one that leaves is told of again when its worker is gone
    return len(there)


def told(events: Sequence[Event]) -> dict[str, Any]:
    """The outcome of executors, stages and tasks."""
    ended = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    return {
        "executors_added": sum(event["Event"] == "SparkListenerExecutorAdded" for event in events),
        "executors_removed": [
            str(event["Removed Reason"]) for event in events if event["Event"] == "SparkListenerExecutorRemoved"
        ],
        "stage_attempts_max": 1 + max((int(event["Stage Attempt ID"]) for event in ended), default=0),
        "tasks_ended": _counted(str(event["Task End Reason"]["Reason"]) for event in ended),
        "speculative_tasks": sum(bool(event["Task Info"]["Speculative"]) for event in ended),
    }


def _counted(words: Any) -> dict[str, int]:
    counted: dict[str, int] = {}
    for word in words:
        counted[word] = counted.get(word, 0) + 1
    return counted


def master(events: Sequence[Event]) -> str:
    """Where the session's tasks go."""
    [properties] = [event["Spark Properties"] for event in events if event["Event"] == "SparkListenerEnvironmentUpdate"]
    return str(dict(properties)["spark.master"])


def tasks_by_executor(events: Sequence[Event]) -> dict[str, int]:
    """How many tasks have ended on each; in local mode all on one called "driver"."""
    return _counted(
        str(event["Task Info"]["Executor ID"]) for event in events if event["Event"] == "SparkListenerTaskEnd"
    )
