"""What a look at a log means for who watches a pipeline, as plain data: its state, rates, terms, sinks, decisions.

The rows of epochs are those of `tpc history`, one epoch is what `tpc show` prints. Nothing here is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from tpc.coordinator.kernel.epochs import epoch_row, epoch_rows
from tpc.coordinator.kernel.resolve_commands import decision_commands
from tpc.coordinator.operations.monitoring.epoch_report import event_time_of, timers_of
from tpc.coordinator.operations.page.log_watcher import EPOCHS, Look, Watched
from tpc.coordinator.spark.source_lag import lag_in_words
from tpc.data_status import data_status
from tpc.errors import ParkedError
from tpc.history import History
from tpc.records import Record, RecordKind
from tpc.states import MachineState, Phase

SILENT_AFTER_S = 60.0
"""For a pipeline whose pace is not known yet."""
SILENT_AFTER_S_MIN = 10.0
SILENT_AFTER_EPOCHS = 3
RATE_EPOCHS = 10
"""Over how many of the newest epochs rows per second are counted."""
STATES = {
    "running": "A record was put within the time that three of its epochs take, or ten seconds; of a young pipeline "
    "within a minute.",
    "silent": "No record was put for longer than three of its epochs take: the pipeline has nothing to read, or it "
    "does not run. The log cannot tell which.",
    "parked": "A sink refuses a decided epoch for good. The pipeline has stopped and waits for an operator.",
    "never started": "The log holds no record.",
    "moved": "The log was moved to another place and ends here.",
    "not read": "The log could not be read yet.",
}


def summary(one: Watched, now: float) -> dict[str, Any]:
    """One line of the list of pipelines; what is not known is None."""
    look = one.look
    state = state_of(look, now)
    said: dict[str, Any] = {
        "number": one.number,
        "place": one.log.describe(),
        "name": None,
        "state": state,
        "means": STATES[state],
        "read_at": look.read_at,
        "waits_since": one.asked_at,
        "error": None if look.error is None else error_view(look.error),
        "failed_at": look.failed_at,
        "newest_at": newest_at(look),
        "waiting": lag_in_words(look.sources, look.checkpoint),
        "waiting_offsets": None if look.sources is None else look.sources.known,
        "asked_at": None if look.sources is None else look.sources.asked_at,
        **dict.fromkeys(("generation", "last_decided", "last_complete", "completed_at", "pending", "rate")),
    }
    if look.window is not None:
        history = look.window.history
        last = history.last_complete
        said |= {
            "name": None if history.pipeline is None else str(history.pipeline),
            "generation": history.generation,
            "last_decided": history.last_intent,
            "last_complete": last,
            "completed_at": history.completed.get(-1 if last is None else last, {}).get("completed_at"),
            "pending": None if history.pending is None else history.pending.epoch,
            "rate": rows_per_s(epoch_rows(history)),
            "damaged": [damaged.slot for damaged in history.damaged],
            "moved_to": history.moved_to,
        }
    return said


def outline(one: Watched, now: float) -> dict[str, Any]:
    """What of a pipeline a browser must hear of: when this changes, its pages look different. Little work."""
    look = one.look
    history = None if look.window is None else look.window.history
    return {
        "number": one.number,
        "name": one.log.describe() if history is None else str(history.pipeline),
        "state": state_of(look, now),
        "slot": None if look.window is None else look.window.last_slot,
        "last_decided": None if history is None else history.last_intent,
        "last_complete": None if history is None else history.last_complete,
        "parked": None if look.parked is None else look.parked["epoch"],
        "error": None if look.error is None else look.error.what,
        "asked_at": None if look.sources is None else look.sources.asked_at,
    }


def state_of(look: Look, now: float) -> str:
    """One of `STATES`, of what the log said last; that it cannot be read now is told beside it."""
    if look.window is None:
        return "never started" if look.read_at is not None and look.error is None else "not read"
    if look.window.history.moved_to is not None:
        return "moved"
    if look.parked is not None:
        return "parked"
    at = newest_at(look)
    return "running" if at is not None and now - at < silent_after_s(look.window.history) else "silent"


def silent_after_s(history: History) -> float:
    """How long after its newest record a pipeline is silent, by the pace of its newest epochs.

    One with a slow trigger is not between two epochs, and of one with a fast trigger it is told within seconds.
    """
    newest = sorted(history.completed)[-RATE_EPOCHS - 1 :]
    ends = [at for epoch in newest if (at := history.completed[epoch].get("completed_at")) is not None]
    if len(ends) <= SILENT_AFTER_EPOCHS:
        return SILENT_AFTER_S
    usual_s = float(median(after - before for before, after in pairwise(ends)))
    return max(SILENT_AFTER_S_MIN, SILENT_AFTER_EPOCHS * usual_s)


def newest_at(look: Look) -> float | None:
    """When the newest record was put, as far as it is known: records of intents and decisions carry no time."""
    if look.window is None:
        return None
    times = [record.body.get("completed_at") or record.body.get("started_at") for record in look.window.records]
    return max((at for at in (*times, look.appeared_at) if at is not None), default=None)


def error_view(error: Exception) -> dict[str, str]:
    """What happened, what is safe, what to do."""
    return {
        "what": getattr(error, "what", str(error)),
        "safe": getattr(error, "safe", ""),
        "remedy": getattr(error, "remedy", ""),
    }


def rows_per_s(rows: Sequence[dict[str, Any]]) -> float | None:
    """Over the newest epochs: their rows, by the time from the end of the one before them to the end of the last."""
    ended = [row for row in rows if row["completed_at"] is not None][-RATE_EPOCHS - 1 :]
    if len(ended) < 2:
        return None
    seconds = float(ended[-1]["completed_at"] - ended[0]["completed_at"])
    return sum(row["rows"] for row in ended[1:]) / seconds if seconds > 0 else None


def newest_rows(history: History, note: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The newest epochs, oldest first, no more than a page; `note` tells which of them is parked, and why."""
    rows = [epoch_row(history, epoch) for epoch in sorted(history.manifests)[-EPOCHS:]]
    for row in rows:
        if note is not None and note["epoch"] == row["epoch"]:
            row |= {"status": "parked", "failure": note["what"]}
    return rows


def rates(rows: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """Each epoch with its rows per second, since the end of the epoch before it."""
    found = []
    for before, row in pairwise(row for row in rows if row["completed_at"] is not None):
        seconds = row["completed_at"] - before["completed_at"]
        if seconds > 0:
            found.append((row["epoch"], row["rows"] / seconds))
    return found


def event_time(history: History) -> dict[str, Any] | None:
    """How far a service has come in event time with its last decided epoch; times in seconds since 1970.

    None for a pipeline whose events have no time. A source without a time yet holds the watermark back, unless it is
    idle; `behind_s` is None where the watermark is not behind the clock.
    """
    last = history.last_intent
    told = event_time_of(None if last is None else history.manifests.get(last))
    if told is None:
        return None
    watermark_ms, now_ms = told["watermark_ms"], told["now_ms"]
    is_behind = watermark_ms is not None and now_ms is not None and watermark_ms < now_ms
    return {
        "watermark_s": None if watermark_ms is None else watermark_ms / 1000,
        "behind_s": (now_ms - watermark_ms) / 1000 if is_behind else None,
        "too_far": sum(told["too_far"].values()),
        "sources": [
            {
                "name": name,
                "reached_s": None if reached_ms is None else reached_ms / 1000,
                "state": "idle" if name in told["idle"] else "active",
                "too_far": told["too_far"].get(name, 0),
            }
            for name, reached_ms in sorted(told["sources"].items())
        ],
    }


def timers(history: History) -> dict[str, Any] | None:
    """What of a service waits for a time after its last decided epoch; times in seconds since 1970.

    None for a pipeline without timers. `due` has the time at which the first is due, by event time and by the clock,
    where one is.
    """
    last = history.last_intent
    told = timers_of(None if last is None else history.manifests.get(last))
    if told is None:
        return None
    due = {"event time": told["next_due_ms"], "the clock": told["next_clock_due_ms"]}
    return {
        "waiting": told["waiting"],
        "fired": told["fired"],
        "due": [{"by": by, "at_s": at_ms / 1000} for by, at_ms in due.items() if at_ms is not None],
    }


def sinks(history: History, note: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Each sink with the newest epoch that it shows, or will show when what is pending is finished, by the log.

    `note` is that of a parked epoch: its words tell which sink refuses it.
    """
    newest = history.manifests[max(history.manifests)].sinks if history.manifests else {}
    names = sorted({*history.sinks, *newest})
    return [
        {
            "name": name,
            "kind": newest[name].kind if name in newest else None,
            "identity": newest[name].identity if name in newest else history.sinks.get(name),
            "newest": history.last_epoch_of(name),
            "pending": _pending_in(history, note, name),
        }
        for name in names
    ]


def _pending_in(history: History, note: dict[str, Any] | None, sink: str) -> str | None:
    """What is known of the pending epoch in a sink; None where it has no part in it."""
    pending = history.pending
    if pending is None or not pending.waits_for(sink):
        return None
    if history.resolution(pending.epoch, sink) is not None:
        return "given up by an operator"
    if note is None:
        return "has to commit it"
    # The note is of one refusal alone: another sink may refuse the epoch too, or have lost a branch of it.
    return "refuses it" if note["sink"] == sink else "has committed it, unless it refuses it or has lost it too"


def parked(one: Watched) -> dict[str, Any] | None:
    """The epoch that a sink refuses, in the words of the error that the pipeline ended with, and the commands."""
    look = one.look
    if look.parked is None or look.window is None or look.checkpoint is None:
        return None
    history, note = look.window.history, look.parked
    assert history.pipeline is not None  # something is pending, so a term has begun
    error = ParkedError(note["what"], epoch=note["epoch"], sink=note["sink"])
    state = MachineState(history.pipeline, Phase.FINISHING, pending=history.pending, resolutions=history.resolutions)
    return {
        "epoch": note["epoch"],
        "sink": note["sink"],
        "at": note["at"],
        **error_view(error),
        "safe": data_status(state, error),
        "commands": decision_commands(one.log, look.checkpoint, note["epoch"], note["sink"]),
    }


# The terms of coordinators, as the records of a log tell them: what each began with, and how long it took to go on.


def terms_of(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The terms that begin among `records`, newest first. A term is a start, a takeover, or one that is renewed."""
    found: list[dict[str, Any]] = []
    last_end: float | None = None
    for record in records:
        if record.kind is RecordKind.GENERATION:
            body = record.body
            found.append(
                {
                    "generation": body["generation"],
                    "slot": record.slot,
                    "started_at": body.get("started_at"),
                    "last_complete": body["last_complete"],
                    "finishes": None if body["pending"] is None else body["pending"]["epoch"],
                    "silence_s": _between(last_end, body.get("started_at")),
                    "recovery_s": None,
                }
            )
        elif record.kind is RecordKind.COMPLETE:
            last_end = record.body.get("completed_at")
            if found and found[-1]["recovery_s"] is None:
                found[-1]["recovery_s"] = _between(found[-1]["started_at"], last_end)
    return found[::-1]


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)
