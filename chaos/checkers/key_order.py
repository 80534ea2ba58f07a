"""The order within a key: what a reader of one partition, or of files epoch by epoch, may rely on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tpc.chaos.checkers.compare import SHOWN, Check


def order_kept(
    name: str,
    records: Iterable[tuple[Hashable, Hashable, Any]],
    *,
    detail: str = "{records:,} records of {keys:,} keys, in order",
) -> Check:
    """Within each key the sequence never goes down, and a key stays in the place in which it was first met.

    A record is (place, key, sequence); the records of one place come in the order in which a reader of it meets them.
    Fails without records. `detail` says what holds when it does.
    """
    newest: dict[Hashable, tuple[Hashable, Any]] = {}
    lines: list[str] = []
    count = 0
    for place, key, sequence in records:
        count += 1
        at, before = newest.get(key, (place, sequence))
        if at != place:
            lines.append(f"{key}: {sequence} is in {place}, {before} in {at}")
        elif sequence < before:
            lines.append(f"{key}: {sequence} comes after {before} in {place}")
        newest[key] = (place, sequence)
    numbers = {"records": count, "keys": len(newest)}
    if not count:
        return Check(name, False, "there are no records: no evidence", numbers=numbers)
    if lines:
        return Check(name, False, f"{len(lines):,} records are out of order", tuple(lines[:SHOWN]), numbers)
    return Check(name, True, detail.format(**numbers), numbers=numbers)
