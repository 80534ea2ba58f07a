"""One epoch as its records tell it: what was read, what each sink took, which records speak of it. Plain data.

Reads the log only. `tpc show` prints it; the history of all epochs is in `epochs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpc.coordinator.kernel.epochs import epoch_row
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import ConfigurationError
from tpc.history import History
from tpc.json import JSONObject, parse
from tpc.manifest import Manifest
from tpc.records import Record
from tpc.watermark import time_in


def epoch_report(log: Log, epoch: int) -> dict[str, Any]:
    """`report_of` the whole log. Raises `ConfigurationError` for an epoch that the log does not hold."""
    journal = Journal(log)
    return report_of(journal.open(), journal.records(), epoch)


def report_of(history: History, records: Iterable[Record], epoch: int) -> dict[str, Any]:
    """What `history` keeps of an epoch: its row in the history of epochs, its branches, and which `records` it has.

    Keys beside those of `epoch_rows`: `branches` (each with sink, handle, resource, rows, size_bytes, digest, data),
    `previous_epochs` (sink -> the epoch that its marker shows before this one), `base_commit`, `stateful`, `counts`,
    `digest_kind`, `resolutions`, `records` (slot and kind of every record that speaks of it). Raises
    `ConfigurationError` for an epoch that `history` does not hold.
    """
    manifest = history.manifests.get(epoch)
    if manifest is None:
        raise ConfigurationError(_not_held(history, epoch), epoch=epoch, remedy="see `tpc history` for those it holds.")
    return {
        **epoch_row(history, epoch),
        "pipeline": str(history.pipeline),
        "branches": [{"sink": sink, **branch.to_json()} for sink, branch in manifest.branches()],
        "previous_epochs": {name: part.previous_epoch for name, part in manifest.sinks.items()},
        "identities": {name: part.identity for name, part in manifest.sinks.items()},
        "base_commit": manifest.epoch_input.base_commit,
        "stateful": manifest.epoch_input.stateful,
        "counts": dict(manifest.counts),
        "digest_kind": manifest.digest_kind,
        "resolutions": [r.to_json() for r in history.resolutions if r.epoch == epoch],
        "records": [{"slot": r.slot, "kind": r.kind.value} for r in records if _speaks_of(r, epoch)],
    }


def epoch_records(log: Log, epoch: int) -> list[JSONObject]:
    """The records that speak of an epoch, as they lie in the log, each with its checksum."""
    return [parse(log.read(record.slot)) for record in Journal(log).records() if _speaks_of(record, epoch)]


def _speaks_of(record: Record, epoch: int) -> bool:
    return bool(record.body.get("epoch") == epoch)


def _not_held(history: History, epoch: int) -> str:
    if history.last_intent is None or epoch > history.last_intent:
        decided = "none is" if history.last_intent is None else f"the last one is {history.last_intent}"
        return f"epoch {epoch} is not decided: {decided}"
    held = sorted(history.manifests)
    oldest = f"the oldest epoch that it holds is {held[0]}" if held else "it holds no epoch"
    return f"epoch {epoch} was pruned from the log: {oldest}"


# How far a service has come in event time, of the manifest of an epoch: plain data, for those who look on.


def event_time_of(manifest: Manifest | None) -> dict[str, Any] | None:
    """The watermark after an epoch, the sources that were idle in it, and its events that were too far ahead.

    None without an epoch, for one of a Spark query, and for one of a service whose events have no time.
    """
    if manifest is None or not manifest.epoch_input.offsets_file.startswith("{"):
        return None
    time = time_in(parse(manifest.epoch_input.offsets_file.encode()))
    if not time.sources:
        return None
    return {
        "watermark_ms": time.reached_ms,
        "now_ms": time.now_ms,
        "idle": sorted(time.idle),
        "too_far": {each.name: each.too_far for each in time.sources if each.too_far},
        "sources": {each.name: each.ended_ms for each in time.sources},
    }


def timers_of(manifest: Manifest | None) -> dict[str, Any] | None:
    """What waits for a time after an epoch of a service: how much, when the first is due, and what has fired in it.

    None without an epoch, and for one of a program without timers.
    """
    if manifest is None or "waiting" not in manifest.counts:
        return None
    counts = manifest.counts
    return {
        "waiting": counts["waiting"],
        "fired": counts["fired"],
        "next_due_ms": counts.get("next_due_ms"),
        "next_clock_due_ms": counts.get("next_clock_due_ms"),
    }
