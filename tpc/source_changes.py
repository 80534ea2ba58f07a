"""Does a pipeline read what it has read before? Asked at start, of plain data, before anything is changed.

A runtime finds the position of a source by its number in the plan (Spark) or by its name (a service). With numbers, two
writes that change places would each go on at the position of the other. So the writes of a program are first brought
into the order on record (`recorded_order`): by their names, else by what they read and feed. Any difference that is
left is a change, and is refused (`check_inputs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from tpc.errors import START_ANEW, ConfigurationError, SourcesChangedError
from tpc.source_records import InputRecord, Inputs, SourceRecord, sources_of
from tpc.source_topics import topics_left_out

_IsSame: TypeAlias = "Callable[[InputRecord, InputRecord], bool]"

_NAME_THEM = (
    'give each of them a name of its own: pipeline.write(df, name="..."). A name is what its position is found by'
)
_AS_THEY_WERE = (
    "start once with the names and sinks that they had; where they had no names, give them names in that start: "
    'pipeline.write(df, name="..."). A name is what a position is found by: change the sinks after it.'
)

# The order on record ------------------------------------------------------------------------------------------------


def recorded_order(recorded: Inputs, wanted: Inputs, pipeline: str, *, stateful: bool) -> list[int]:
    """The order in which `wanted` is to be planned, as indexes into it, so that each has its place in `recorded`.

    An input that differs gets a place that is left, and `check_inputs` refuses it. Raises `ConfigurationError` if two
    inputs cannot be distinguished. With another number of inputs their own order stays.
    """
    if len(recorded) != len(wanted):
        return list(range(len(wanted)))
    pairs = _Pairs(recorded, wanted)
    pairs.take(lambda old, new: bool(old.name) and old.name == new.name)
    _pair_groups(pairs, _read_and_feed_alike, wanted, pipeline, stateful=stateful)
    pairs.pair_unique(_read_alike_and_share_sinks)  # for instance inputs that were each given one more sink
    _pair_groups(pairs, InputRecord.is_like, wanted, pipeline, stateful=stateful)
    pairs.take(lambda old, new: set(old.sinks) == set(new.sinks))
    pairs.take(lambda old, new: True)
    return pairs.order()


def _pair_groups(pairs: _Pairs, is_same: _IsSame, wanted: Inputs, pipeline: str, *, stateful: bool) -> None:
    """Pair those that are the same. Raises `ConfigurationError` if there are several and exchanging them matters."""
    while (group := pairs.group(is_same)) is not None:
        olds, news = group
        if max(len(olds), len(news)) > 1 and not _share_positions([wanted[n] for n in news], stateful=stateful):
            raise _ambiguous(wanted[news[0]], pipeline, _AS_THEY_WERE, stateful=stateful)
        pairs.pair(olds, news)


def _read_and_feed_alike(one: InputRecord, other: InputRecord) -> bool:
    return one.is_like(other) and set(one.sinks) == set(other.sinks)


def _read_alike_and_share_sinks(one: InputRecord, other: InputRecord) -> bool:
    return one.is_like(other) and not set(one.sinks).isdisjoint(other.sinks)


def _share_positions(inputs: Sequence[InputRecord], *, stateful: bool) -> bool:
    """Whether these inputs may change places: they read one DataFrame, and have no state."""
    readers = [[source.reader for source in each.sources] for each in inputs]
    return not stateful and all(each == readers[0] for each in readers)


class _Pairs:
    """Which input of `recorded` is which of `wanted`, as far as that is known."""

    def __init__(self, recorded: Inputs, wanted: Inputs) -> None:
        self._recorded = recorded
        self._wanted = wanted
        self._found: dict[int, int] = {}

    def left_of_recorded(self) -> list[int]:
        return [number for number in range(len(self._recorded)) if number not in self._found]

    def left_of_wanted(self) -> list[int]:
        taken = set(self._found.values())
        return [number for number in range(len(self._wanted)) if number not in taken]

    def pair(self, olds: Sequence[int], news: Sequence[int]) -> None:
        self._found |= dict(zip(olds, news, strict=False))

    def pair_unique(self, is_same: _IsSame) -> None:
        """Pair two inputs if each of them is the only one that is the same as the other."""
        olds, news = self.left_of_recorded(), self.left_of_wanted()
        alike = [(old, new) for old in olds for new in news if is_same(self._recorded[old], self._wanted[new])]
        for old, new in alike:
            if [pair for pair in alike if old == pair[0] or new == pair[1]] == [(old, new)]:
                self.pair([old], [new])

    def group(self, is_same: _IsSame) -> tuple[list[int], list[int]] | None:
        """Of the first input left in `recorded` that is the same as one in `wanted`: all that are the same as it."""
        for first in self.left_of_recorded():
            olds = [n for n in self.left_of_recorded() if is_same(self._recorded[first], self._recorded[n])]
            news = [n for n in self.left_of_wanted() if is_same(self._recorded[first], self._wanted[n])]
            if news:
                return olds, news
        return None

    def take(self, is_same: _IsSame) -> None:
        """Pair each input that is left with the first one left that is the same."""
        for old in self.left_of_recorded():
            for new in self.left_of_wanted():
                if is_same(self._recorded[old], self._wanted[new]):
                    self.pair([old], [new])
                    break

    def order(self) -> list[int]:
        return [self._found[number] for number in range(len(self._recorded))]


def require_distinct(inputs: Inputs, pipeline: str, *, stateful: bool) -> None:
    """Raise `ConfigurationError` for two writes that no later start could distinguish if their lines were exchanged.

    They read the same places into the same sinks, and have no names. Two reads of one DataFrame share a position, so
    only their states could be exchanged.
    """
    names = [each.name for each in inputs if each.name]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"two writes have the name {twice!r}", pipeline=pipeline, remedy=f"{_NAME_THEM}.")
    unnamed = [each for each in inputs if not each.name]
    for number, one in enumerate(unnamed):
        for other in unnamed[number + 1 :]:
            if _read_and_feed_alike(one, other) and not _share_positions([one, other], stateful=stateful):
                else_once = "" if stateful else "; or read the source once, as one DataFrame"
                raise _ambiguous(one, pipeline, f"{_NAME_THEM}{else_once}.", stateful=stateful)


def _ambiguous(one: InputRecord, pipeline: str, remedy: str, *, stateful: bool) -> ConfigurationError:
    read = " and ".join(map(str, one.sources))
    kept = "the position and the state" if stateful else "the position"
    return ConfigurationError(
        f"two writes cannot be distinguished: both read {read}, one of them into {', '.join(one.sinks)}. If their "
        f"lines changed places, each would go on at {kept} of the other",
        pipeline=pipeline,
        remedy=remedy,
    )


# What is refused ----------------------------------------------------------------------------------------------------


def check_inputs(recorded: Inputs, wanted: Inputs, pipeline: str, *, replays: int | None = None) -> None:
    """Raise `SourcesChangedError` if what `wanted` reads, in its order, differs from `recorded`.

    `replays` is the decided epoch that may be read again, if there is one: until then parsing must not change.
    """
    for error in planned_changes(recorded, wanted, pipeline, replays=replays):
        raise error


def check_named(recorded: Inputs, wanted: Inputs, pipeline: str) -> None:
    """The same for a service, whose positions are found by the sources' names."""
    for error in named_changes(recorded, wanted, pipeline):
        raise error


def planned_changes(
    recorded: Inputs, wanted: Inputs, pipeline: str, *, replays: int | None = None
) -> Iterator[SourcesChangedError]:
    """Every difference between two plans, in order."""
    old, new = sources_of(recorded), sources_of(wanted)
    if len(old) != len(new):
        yield _lasting(
            f"the pipeline reads {len(new)} sources and {len(old)} are on record: it read {_listed(old)}, and reads "
            f"{_listed(new)}",
            pipeline,
            f"{_with_as_many(old, new)}; or {START_ANEW}. Positions are found by the numbers of the sources, so there "
            "must be as many as before.",
        )
        return
    if len(recorded) != len(wanted) and (twin := _twin(new)) is not None:
        yield _lasting(
            f"the sources are read by another number of writes than before, and two of them are {twin}: it is unknown "
            "which of them goes on at which position",
            pipeline,
            "write them as before.",
        )
    fed = [each for each in wanted for _ in each.sources]
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        named = f"source {number} of {fed[number]}"
        if (error := _change(named, before, after, [*old[:number], *old[number + 1 :]], pipeline)) is not None:
            yield error
        if replays is not None and dict(before.parsing) != dict(after.parsing):
            yield _lasting(
                f"{named} ({after}) is parsed otherwise than before, and decided epoch {replays} may be read again: "
                f"{_differing(before, after)}",
                pipeline,
                "start once more with the options that it had, stop the pipeline, and change them then.",
            )


def _change(
    named: str, before: SourceRecord, after: SourceRecord, others: Sequence[SourceRecord], pipeline: str
) -> SourcesChangedError | None:
    what = f"{named} is {after}, and was {before}"
    if before.is_like(after):
        if before.reader == after.reader:
            return None
        return _lasting(
            f"{named} ({after}) is not read by the reader that it had: one DataFrame became two, or two became one",
            pipeline,
            "where it was one DataFrame, read the source once and write that DataFrame; else read the source twice.",
        )
    if any(other.is_like(after) for other in others):
        return _lasting(
            f"{what}. On record that is another source of the pipeline: each would go on at the position of the other",
            pipeline,
            "put the sources into the order that they had: the sides of a join or union, or the names of the writes.",
        )
    if before.kind != after.kind:
        return _lasting(
            f"{what}: positions of the one mean nothing in the other",
            pipeline,
            f"read what the pipeline has read; write the new source in a pipeline of its own, or {START_ANEW}.",
        )
    if gone := topics_left_out(before, after):
        return _lasting(
            f"{what}: topic {gone[0]!r} was read, and a query cannot go on without a topic that it has read",
            pipeline,
            f"read it too, and leave its rows out: df.filter(\"topic != '{gone[0]}'\"); or {START_ANEW}.",
        )
    return SourcesChangedError(what, pipeline=pipeline)


def _with_as_many(old: Sequence[SourceRecord], new: Sequence[SourceRecord]) -> str:
    """The remedy that leaves the number of sources as it was."""
    if len(new) < len(old):
        return (
            "go on reading what the pipeline has read; keep a write whose rows you no longer want, with a condition "
            'that takes none of them: .to(sink, where="false")'
        )
    if all(any(one.is_like(other) for other in old) for one in new):
        return (
            "read each source as often as before. What is written already can have more sinks: add them to its write, "
            'pipeline.write(df).to(sink).to(another, where="...")'
        )
    return "read what the pipeline has read; write the new source in a pipeline of its own"


def named_changes(recorded: Inputs, wanted: Inputs, pipeline: str) -> Iterator[SourcesChangedError]:
    """Every difference between sources of one name. A source that was left out is checked elsewhere.

    A source may have no kind, or no place.
    """
    before = {each.name: each.sources[0] for each in recorded}
    for each in wanted:
        old, new = before.get(each.name), each.sources[0]
        if old is None or old.is_like(new):
            continue
        what = f"source {each.name!r} is {new}, and was {old}"
        if old.kind and new.kind and old.kind != new.kind:
            yield _lasting(
                f"{what}: positions of the one mean nothing in the other",
                pipeline,
                "read the old one under its name; give the new one another name (name=...), and retire the old one: "
                f"service.retire({each.name!r}).",
            )
        elif old.place and new.place:
            yield SourcesChangedError(what, pipeline=pipeline)


def _twin(sources: Sequence[SourceRecord]) -> SourceRecord | None:
    """A source that is among them twice; None if there is none."""
    return next((one for n, one in enumerate(sources) if any(one.is_like(o) for o in sources[n + 1 :])), None)


def _lasting(what: str, pipeline: str, remedy: str) -> SourcesChangedError:
    """The error for a change that no operator's decision can accept: positions would be valid in something else."""
    return SourcesChangedError(what, pipeline=pipeline, remedy=remedy, acceptable=False)


def _listed(sources: Sequence[SourceRecord]) -> str:
    return "; ".join(map(str, sources)) or "nothing"


def _differing(before: SourceRecord, after: SourceRecord) -> str:
    names = sorted(
        name for name in {**before.parsing, **after.parsing} if before.parsing.get(name) != after.parsing.get(name)
    )
    told = (f"{n} was {before.parsing.get(n, 'not given')} and is {after.parsing.get(n, 'not given')}" for n in names)
    return "; ".join(told)
