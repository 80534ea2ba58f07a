"""The rules for what readers saw while a run was being disturbed: nothing that was taken back, nothing by halves.

Pure: what a reader took down (`watching` and the readers beside it) against what is there at the end. A reader that
saw nothing, or did not look in time, is no evidence, so each rule fails without an observation. Gaps, when a server
was away, are counted and are no failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

from tpc.chaos.checkers.compare import SHOWN, Check
from tpc.chaos.checkers.kafka_content import KafkaRecord

Place: TypeAlias = "tuple[int, int]"
"""A partition and an offset."""


@dataclass
class Seen:
    """What every reader takes down: good polls, stretches in which none succeeded, and the error that ended it.

    `times`: when each good poll began, in seconds since 1970.
    """

    polls: int = 0
    gaps: int = 0
    error: str = ""
    times: list[float] = field(default_factory=list)


@dataclass
class SeenRecords(Seen):
    """What a consumer was given: key and digest of the record at each place, and the places given more than once."""

    records: dict[Place, tuple[bytes | None, bytes]] = field(default_factory=dict)
    again: list[Place] = field(default_factory=list)

    def take(self, record: KafkaRecord) -> None:
        """The consumer was given this record."""
        place = (record.partition, record.offset)
        if place in self.records:
            self.again.append(place)
        self.records[place] = (record.key, digest_of(record))


@dataclass(frozen=True)
class Rows:
    """One look at a set of rows, `after_s` the watching began: their ids, and those that stood there twice."""

    after_s: float
    ids: frozenset[Hashable]
    doubled: tuple[Hashable, ...] = ()


@dataclass
class SeenRows(Seen):
    """The looks that differed from the one before."""

    looks: list[Rows] = field(default_factory=list)

    def take(self, after_s: float, ids: Iterable[Hashable]) -> None:
        """A look showed these rows."""
        counts = Counter(ids)
        look = Rows(after_s, frozenset(counts), tuple(one for one, times in counts.items() if times > 1))
        if not self.looks or (self.looks[-1].ids, self.looks[-1].doubled) != (look.ids, look.doubled):
            self.looks.append(look)


@dataclass(frozen=True)
class Tallies:
    """One look at amounts by key."""

    after_s: float
    amounts: Mapping[Hashable, Sequence[float]]


@dataclass
class SeenTallies(Seen):
    """The looks that differed from the one before."""

    looks: list[Tallies] = field(default_factory=list)

    def take(self, after_s: float, amounts: Mapping[Any, Sequence[float]]) -> None:
        """A look showed these amounts."""
        if not self.looks or self.looks[-1].amounts != amounts:
            self.looks.append(Tallies(after_s, dict(amounts)))


def all_looked(name: str, readers: Mapping[str, Seen], begin: float, end: float) -> Check:
    """Each reader looked between `begin` and `end` (seconds since 1970): one that did not has seen no disturbance."""
    looks = {reader: sum(begin < time < end for time in seen.times) for reader, seen in readers.items()}
    lines = [f"the reader of {reader} had no good look" for reader, number in looks.items() if not number]
    during = f"in the {end - begin:.1f} s of the disturbance"
    if lines:
        return Check(name, False, f"{', '.join(lines)} {during}", tuple(lines[:SHOWN]), looks)
    told = ", ".join(f"{reader} {number:,}" for reader, number in looks.items())
    return Check(name, True, f"looks {during}: {told}", numbers=looks)


def digest_of(record: KafkaRecord) -> bytes:
    """A short hash of key, value and headers; of a missing key or value another than of an empty one."""
    return blake2b(repr((record.key, record.value, sorted(record.headers.items()))).encode(), digest_size=16).digest()


def records_stay(name: str, seen: SeenRecords, end: Iterable[KafkaRecord]) -> Check:
    """Every record that the consumer was ever given is at the end still at its place, unchanged; none came twice.

    A record of a transaction that was aborted is not there at the end.
    """
    final = {(record.partition, record.offset): digest_of(record) for record in end}
    lines = []
    for place, (key, digest) in sorted(seen.records.items()):
        if place not in final:
            lines.append(f"{_in_words(place)}: was seen with key {key!r}, and is not there at the end")
        elif final[place] != digest:
            lines.append(f"{_in_words(place)}: was seen with key {key!r}, and is another record at the end")
    lines += [f"{_in_words(place)}: was given to the reader twice" for place in sorted(set(seen.again))]
    return _judged(name, seen, lines, len(seen.records), len(final), "records, all of them there at the end")


def _in_words(place: Place) -> str:
    return f"partition {place[0]}, offset {place[1]}"


def branches_whole(
    name: str, seen: SeenRows, branches: Mapping[Any, Collection[Hashable]], *, unit: str = "branch"
) -> Check:
    """Every look showed of each branch all rows or none, no row that is not there at the end, and each row once.

    `branches` names every row of the end by its branch; a row that was seen once is seen ever after. Where an epoch
    becomes visible as a whole, the epochs take the place of the branches (`unit` says so).
    """
    branch_of: dict[Hashable, Hashable] = {}
    lines = []
    for branch, ids in branches.items():
        for one in ids:
            if one in branch_of:
                lines.append(f"{one}: is there twice at the end, in {unit} {branch_of[one]} and {branch}")
            branch_of[one] = branch
    before: frozenset[Hashable] = frozenset()
    for look in seen.looks:
        after = f"after {look.after_s:.2f} s"
        lines += [f"{one}: was seen {after}, and is not there at the end" for one in _named(look.ids - set(branch_of))]
        lines += [f"{one}: was gone {after}, and had been seen" for one in _named(before - look.ids)]
        lines += [f"{one}: was there twice {after}" for one in _named(look.doubled)]
        shown = Counter(branch_of[one] for one in look.ids if one in branch_of)
        lines += [
            f"{unit} {branch}: {shown[branch]} of {len(branches[branch])} rows {after}"
            for branch in _named(shown)
            if shown[branch] < len(branches[branch])
        ]
        before |= look.ids
    return _judged(
        name, seen, lines, len(before), len(branch_of), f"rows, each {unit} whole in {len(seen.looks):,} states"
    )


def tallies_grow(name: str, seen: SeenTallies, end: Mapping[Any, Sequence[float]]) -> Check:
    """No amount ever went down, no key went away, none was more than at the end. What is added must not be below 0.

    It shows a row that was counted twice or taken back; not a branch by halves, which looks like a smaller branch.
    """
    lines = []
    before: dict[Hashable, Sequence[float]] = {}
    for look in seen.looks:
        after = f"after {look.after_s:.2f} s"
        lines += [f"{key}: was gone {after}, and had been seen" for key in _named(before.keys() - look.amounts.keys())]
        for key in _named(look.amounts):
            amounts, earlier, final = look.amounts[key], before.get(key), end.get(key)
            if final is None:
                lines.append(f"{key}: was seen {after}, and is not there at the end")
            elif any(now > last for now, last in zip(amounts, final, strict=True)):
                lines.append(f"{key}: {tuple(amounts)} {after}, more than {tuple(final)} at the end")
            if earlier is not None and any(now < then for now, then in zip(amounts, earlier, strict=True)):
                lines.append(f"{key}: {tuple(amounts)} {after}, less than {tuple(earlier)} before")
        before |= look.amounts
    return _judged(name, seen, lines, len(before), len(end), f"keys that only grow, in {len(seen.looks):,} states")


def _named(keys: Iterable[Hashable]) -> list[Hashable]:
    """In an order that is the same in every run; no more than are shown."""
    return sorted(keys, key=str)[:SHOWN]


def _judged(name: str, seen: Seen, lines: Sequence[str], observed: int, there: int, what: str) -> Check:
    """`observed` things were seen at least once, of `there` that are there at the end."""
    if seen.error:
        lines = [f"the reader broke off: {seen.error}", *lines]
    elif not seen.polls:
        lines = ["the reader never saw the system: no evidence", *lines]
    elif there and not observed:
        lines = [f"the reader saw nothing of {there:,} in {seen.polls:,} polls: no evidence", *lines]
    numbers = {"polls": seen.polls, "gaps": seen.gaps, "observed": observed}
    if lines:
        return Check(name, False, f"{len(lines):,} contradictions", tuple(lines[:SHOWN]), numbers)
    gaps = f", {seen.gaps} gaps" if seen.gaps else ""
    return Check(name, True, f"{seen.polls:,} polls{gaps}: {observed:,} {what}", numbers=numbers)
