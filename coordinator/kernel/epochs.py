"""The history of epochs as users see it: one plain dict per epoch, like Flink's checkpoint history."""

from __future__ import annotations

from typing import Any

from tpc.history import History
from tpc.json import JSONObject
from tpc.manifest import Manifest


def epoch_rows(history: History) -> list[dict[str, Any]]:
    """Every epoch that the log still holds, oldest first.

    Keys: `epoch`, `status` ("complete" or "decided"), `generation`, `rows`, `late`, `unrouted`, `state` (rows,
    memory_bytes, disk_bytes), `start` and `end` (offsets per source), `sinks` (name -> rows, size_bytes, branches),
    `seconds` (phase -> seconds; "complete" is known once the next epoch is complete), `sink_seconds` (sink -> "write",
    "flush" and "prepare" of its slowest task), `commit_seconds` (sink -> seconds), `started_at`, `completed_at`
    (seconds since 1970).
    """
    return [epoch_row(history, epoch) for epoch in sorted(history.manifests)]


def epoch_row(history: History, epoch: int) -> dict[str, Any]:
    """One epoch that the log still holds; the keys are those of `epoch_rows`."""
    row = _row(history.manifests[epoch], history.completed.get(epoch))
    previous = history.completed.get(epoch + 1, {}).get("previous_complete")
    if previous is not None and previous["epoch"] == epoch:
        row["seconds"]["complete"] = previous["seconds"]
    return row


def _row(manifest: Manifest, complete: JSONObject | None) -> dict[str, Any]:
    return {
        "epoch": manifest.epoch,
        "status": "decided" if complete is None else "complete",
        "generation": manifest.generation,
        "rows": manifest.counts.get("rows", 0),
        "late": manifest.counts.get("late"),
        "unrouted": manifest.counts.get("unrouted", 0),
        "state": _state(manifest),
        "start": list(manifest.epoch_input.start),
        "end": list(manifest.epoch_input.end),
        "sinks": {
            name: {
                "rows": part.rows,
                "size_bytes": sum(branch.committable.size_bytes for branch in part.branches),
                "branches": len(part.branches),
            }
            for name, part in manifest.sinks.items()
        },
        "seconds": dict((complete or {}).get("seconds", {})),
        "sink_seconds": dict((complete or {}).get("sink_seconds", {})),
        "commit_seconds": dict((complete or {}).get("commit_seconds", {})),
        "started_at": (complete or {}).get("started_at"),
        "completed_at": (complete or {}).get("completed_at"),
        "failure": None,
    }


def _state(manifest: Manifest) -> dict[str, int] | None:
    """How large the state was when the epoch ended; None without state, or where the runtime does not tell."""
    names = {"rows": "state_rows", "memory_bytes": "state_memory_bytes", "disk_bytes": "state_disk_bytes"}
    counts = manifest.counts
    return {name: counts[count] for name, count in names.items() if count in counts} or None
