"""What a log says, as the lines that `tpc status` prints above the epochs; the facts come from `operations`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tpc.history import Resolution, given_up_in_words


def status_lines(state: dict[str, Any]) -> list[str]:
    """Who leads, what is decided and complete, what waits, and what operators have put on the record."""
    lines = [
        f"pipeline {state['pipeline']}, generation {state['generation']}",
        f"last decided epoch {state['last_decided']}, last complete epoch {state['last_complete']}",
    ]
    if leader := state.get("leader"):
        lines.append(_leader_line(leader))
    if event_time := state.get("event_time"):
        lines += event_time_lines(event_time)
    if timers := state.get("timers"):
        lines.append(timers_line(timers))
    if state["pending"] is None:
        lines.append("nothing is pending")
    elif (parked := state["parked"]) is not None:
        at = datetime.fromtimestamp(parked["at"]).astimezone().isoformat(" ", "seconds")
        lines.append(f"epoch {state['pending']} is parked: sink {parked['sink']}, {at}: {parked['what']}")
        commands = " or ".join(f"`{command}`" for command in state.get("decisions", ()) or ["tpc resolve"])
        lines.append(
            "all else of it is committed, but for what is refused or lost too. To do: remove the cause and start, or "
            f"record a decision: {commands}"
        )
    else:
        branches = ", ".join(f"{name}: {count}" for name, count in state["pending_branches"].items() if count)
        lines.append(f"epoch {state['pending']} is decided and not complete; branches: {branches or 'none'}")
    lines += [
        f"slot {slot} at the end of the log is damaged. Safe: nothing was changed. To do: start the pipeline; it voids "
        "the record and repeats its epoch unless a sink shows something that it decided, and then says what to restore."
        for slot in state["damaged_slots"]
    ]
    for sink, after in state["removed_sinks"].items():
        lines.append(
            f"sink {sink} was removed {'before an epoch was decided' if after is None else f'after epoch {after}'}"
        )
    lines += [resolution_line(resolution) for resolution in state["resolutions"]]
    return lines


def _leader_line(leader: dict[str, Any]) -> str:
    if leader.get("runs") is False:
        return (
            "no process leads: process {process}, which led last, does not run on {host} any more; its last heartbeat "
            "is {age_s:.1f} s old"
        ).format(**leader)
    return "led by process {process} on {host}, whose last heartbeat is {age_s:.1f} s old".format(**leader)


def event_time_lines(event_time: dict[str, Any]) -> list[str]:
    """How far a service has come in event time, and what has no part in that."""
    reached_ms = event_time["watermark_ms"]
    lines = [f"watermark {'not known yet' if reached_ms is None else _instant(reached_ms)}"]
    if event_time["idle"]:
        lines.append(f"idle sources, which do not hold it back: {', '.join(event_time['idle'])}")
    unknown = [name for name, ms in event_time["sources"].items() if ms is None and name not in event_time["idle"]]
    if reached_ms is None and unknown:
        lines.append(f"no event with a time yet: {', '.join(unknown)}")
    lines += [
        f"source {name}: {count} events of the last epoch are too far ahead of the clock, and do not move the watermark"
        for name, count in event_time["too_far"].items()
    ]
    return lines


def timers_line(timers: dict[str, Any]) -> str:
    """What of a service waits for a time."""
    due = {"by event time": timers["next_due_ms"], "by the clock": timers["next_clock_due_ms"]}
    first = ", ".join(f"{_instant(ms)} {by}" for by, ms in due.items() if ms is not None)
    when = f", the first due at {first}" if first else ""
    return f"timers: {timers['waiting']} wait{when}; {timers['fired']} have fired in the last decided epoch"


def _instant(ms: int) -> str:
    """Also of a year that a time zone of here would lead out of the calendar, or that is out of it."""
    try:
        return f"{datetime(1970, 1, 1) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{ms} ms since 1970"


def joined_line(sink: str) -> str:
    """Of a sink whose removal settings of before have undone."""
    return (
        f"sink {sink} was removed on the record and is part of the pipeline again, since these settings have it. "
        "To do: nothing if it is to stay; else `tpc remove` it once more: before that a start without it is refused"
    )


def resolution_line(resolution: dict[str, Any]) -> str:
    """One decision of an operator, with the outcome of the branches that it concerned."""
    line = "resolved: epoch {epoch} {sink} {action} ({reason})".format(**resolution)
    ends = Resolution.from_json(resolution).ends
    return f"{line}; {given_up_in_words(ends)}" if ends else line
