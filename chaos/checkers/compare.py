"""The rules of the checks: pure comparisons of what systems show, with the first differences by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

SHOWN = 10
"""How many differences a check names."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Check:
    """One statement and whether it holds. `differences` names the first keys where it does not."""

    name: str
    passed: bool
    detail: str
    differences: tuple[str, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the verdict file."""
        return {
            "check": self.name,
            "passed": self.passed,
            "detail": self.detail,
            "differences": list(self.differences),
            "numbers": dict(self.numbers),
        }


def multisets_equal(name: str, expected: Iterable[tuple[Any, ...]], actual: Iterable[tuple[Any, ...]]) -> Check:
    """The same rows, each as often. The first field of a row is its key; rows with one key are compared field by
    field, so that a difference says missing, extra (how often) or other values.
    """
    wanted, seen = Counter(expected), Counter(actual)
    missing, extra = wanted - seen, seen - wanted
    differences = [] if wanted == seen else _row_differences(missing, extra)
    numbers = {"rows": sum(seen.values()), "missing": sum(missing.values()), "extra": sum(extra.values())}
    if not differences:
        return Check(name, True, f"{numbers['rows']:,} rows, each exactly once", numbers=numbers)
    detail = f"{numbers['missing']:,} rows are missing, {numbers['extra']:,} are too many"
    return Check(name, False, detail, tuple(differences[:SHOWN]), numbers)


def _row_differences(missing: Counter[tuple[Any, ...]], extra: Counter[tuple[Any, ...]]) -> list[str]:
    """One line for each key that differs, in the order of the keys, at most as many as are shown."""
    missing_by_key = _by_key(missing)
    extra_by_key = _by_key(extra)
    lines = []
    for key in sorted(missing_by_key.keys() | extra_by_key.keys(), key=str)[:SHOWN]:
        wanted, extra_values = missing_by_key.get(key), extra_by_key.get(key)
        if extra_values is None:
            lines.append(f"{key}: missing")
        elif wanted is None:
            lines.append(f"{key}: {extra[extra_values]} too many" if extra_values else f"{key}: too many")
        else:
            pairs = ", ".join(f"{a!r} instead of {b!r}" for a, b in zip(extra_values, wanted, strict=True) if a != b)
            lines.append(f"{key}: {pairs}")
    return lines


def _by_key(rows: Mapping[tuple[Any, ...], int]) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row for row in rows}


def tallies_equal(
    name: str, expected: Mapping[Key, Any], actual: Mapping[Key, Any], *, detail: str = "{} keys, equal to the unit"
) -> Check:
    """The same keys with the same values, to the unit. `detail` says so; `{}` in it is the number of keys."""
    lines = []
    for key in sorted(expected.keys() | actual.keys(), key=str):
        if key not in actual:
            lines.append(f"{key}: missing")
        elif key not in expected:
            lines.append(f"{key}: is there and should not be")
        elif expected[key] != actual[key]:
            lines.append(f"{key}: {actual[key]} instead of {expected[key]}")
    if not lines:
        return Check(name, True, detail.format(f"{len(actual):,}"), numbers={"keys": len(actual)})
    return Check(
        name, False, f"{len(lines)} of {len(expected)} keys differ", tuple(lines[:SHOWN]), {"keys": len(actual)}
    )


def sets_equal(name: str, expected: Iterable[Key], actual: Iterable[Key], *, detail: str) -> Check:
    """The same members. `detail` says what was compared when it holds; `{}` in it is the number of members."""
    wanted, seen = set(expected), set(actual)
    lines = [f"{key}: missing" for key in sorted(wanted - seen, key=str)]
    lines += [f"{key}: is there and should not be" for key in sorted(seen - wanted, key=str)]
    numbers = {"members": len(seen)}
    if not lines:
        return Check(name, True, detail.format(f"{len(seen):,}"), numbers=numbers)
    return Check(name, False, f"{len(lines):,} members differ", tuple(lines[:SHOWN]), numbers)


def one_place_each(name: str, records: Mapping[Key, int], places: Mapping[str, set[Key]], late: set[Key]) -> Check:
    """Every record is in exactly one place, or known to be late; its further copies are duplicates.

    `records` counts how often each key was sent. A key in no place that is not in `late` is lost; a late one that
    is in a place was not late. The numbers add up to all that was sent.
    """
    lines: list[str] = []
    numbers = dict.fromkeys(places, 0) | {"duplicate": 0, "late": 0, "lost": 0}
    for key, copies in records.items():
        holding = [place for place, members in places.items() if key in members]
        if not holding:
            numbers["late" if key in late else "lost"] += copies
            if key not in late:
                lines.append(f"{key}: in no place, and not late")
            continue
        numbers[holding[0]] += 1
        numbers["duplicate"] += copies - 1
        if len(holding) > 1:
            lines.append(f"{key}: at once {' and '.join(holding)}")
        if key in late:
            lines.append(f"{key}: late, and yet {holding[0]}")
    for place, members in places.items():
        lines += [f"{key}: {place}, and never sent" for key in members - records.keys()]
    total = sum(records.values())
    parts = ", ".join(f"{count:,} {place}" for place, count in numbers.items() if count or place != "lost")
    detail = f"{total:,} records sent: {parts}"
    return Check(name, not lines, detail, tuple(sorted(lines)[:SHOWN]), {"sent": total, **numbers})


def nothing_left(name: str, left: Mapping[str, Sequence[str]]) -> Check:
    """No system holds anything of an epoch that is neither committed nor aborted. `left` names it by place."""
    lines = [f"{place}: {what}" for place, things in left.items() for what in things]
    if lines:
        return Check(name, False, f"{len(lines)} things are left behind", tuple(lines[:SHOWN]), {"left": len(lines)})
    return Check(name, True, f"nothing in {', '.join(left)}", numbers={"left": 0})


# The order within a key: what a reader of one partition, or of files epoch by epoch, may rely on.


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


# Recovery is bounded: every restart came to a new epoch, and soon enough.


def recovery_bounded(name: str, times_s: Sequence[float | None], *, bound_s: float) -> Check:
    """Each time from a restart to its first new epoch is at most `bound_s`; None is a restart that never came to one.

    Without restarts there is nothing to bound, and it holds.
    """
    lines = []
    for number, time_s in enumerate(times_s, start=1):
        if time_s is None:
            lines.append(f"restart {number}: never came to a new epoch")
        elif time_s > bound_s:
            lines.append(f"restart {number}: {time_s:.1f} s")
    known = [time_s for time_s in times_s if time_s is not None]
    numbers = {"restarts": len(times_s)}
    if known:
        numbers |= {"median_ms": round(median(known) * 1000), "max_ms": round(max(known) * 1000)}
    if lines:
        detail = f"{len(lines)} of {len(times_s)} took more than {bound_s:g} s"
        return Check(name, False, detail, tuple(lines[:SHOWN]), numbers)
    if not known:
        return Check(name, True, "no restart", numbers=numbers)
    detail = f"{len(known)} restarts: median {median(known):.1f} s, longest {max(known):.1f} s, bound {bound_s:g} s"
    return Check(name, True, detail, numbers=numbers)
