"""The terms of coordinators, as the records of a log tell them: what each began with, and how long it took to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpc.records import Record, RecordKind


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
