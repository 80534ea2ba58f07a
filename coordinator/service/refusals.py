"""An event that the program refuses, as an error: which it was, where it came from, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpc.coordinator.service.cut_events import CutEvents, Refusal
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.errors import DataError
from tpc.user_code import said

_OF_ONE = (
    "correct the program, then start it again: the epoch is read again from where it began. Or let such events go "
    "into a sink of their own: service.dead_letters_to(sink)."
)
_OF_MANY = (
    "correct the program, then start it again: the epoch is read again from where it began. What a function of batches "
    "or of the cut raises is never a dead letter: one of each event (service.each) can refuse one event."
)


def error_of(refusal: Refusal) -> DataError:
    """The error that ends the service where there are no dead letters."""
    where = f"the event at {refusal.origin.position} of source {refusal.source!r}"
    return _named(refusal.error, f"{refusal.function} refuses {where}", refusal, remedy=_OF_ONE)


def error_of_many(function: str, events: Sequence[CutEvents], error: Exception) -> DataError:
    """The same of a function that was given all of these events at once."""
    found = [each for each in events if each]
    sources, ranges = ", ".join(repr(each.source) for each in found), "; ".join(each.range() for each in found)
    count = sum(map(len, found))
    what = f"{function} has failed with the {count} events at {ranges} of source {sources}"
    refusal = Refusal(sources, found[0].origin(0), function, error) if found else None
    made = _named(error, what, refusal, remedy=_OF_MANY)
    made.position = ranges
    return made


_OR_FIRED = ", or of what has fired among them"


def placed(error: DataError, events: Mapping[str, CutEvents], fired: bool = False) -> DataError:
    """An error of a row, of which only the epoch is known: it says of which events the row is. Returns itself."""
    found = [each for each in events.values() if each]
    if error.position is None and found:
        error.source = ", ".join(each.source for each in found)
        error.position = "; ".join(each.range() for each in found)
        made_of = f"one of the {sum(map(len, found))} events at {error.position}"
        error.what += f" (it was made of {made_of}{_OR_FIRED if fired else ''})"
        error.args = (error.what,)
    return error


def placed_between(cuts: Sequence[SourceCut], error: DataError, fired: bool = False) -> DataError:
    """The same of an error that comes once the events are gone: from which positions to which they were."""
    read = [cut for cut in cuts if not cut.is_retired and cut.start != cut.end]
    if error.position is None and read:
        error.source = ", ".join(cut.name for cut in read)
        error.position = "; ".join(f"between {cut.start} and {cut.end}" for cut in read)
        made_of = f"the events of source {error.source} {error.position}"
        error.what += f" (it was made of {made_of}{_OR_FIRED if fired else ''})"
        error.args = (error.what,)
    return error


def _named(error: Exception, what: str, refusal: Refusal | None, remedy: str) -> DataError:
    column, key = (error.column, error.key) if isinstance(error, DataError) else (None, None)
    made = DataError(f"{what}: {said(error)}", column=column, key=key, remedy=remedy)
    if refusal is not None:
        made.source, made.position, made.function = refusal.source, refusal.origin.position, refusal.function
    made.__cause__ = error
    return made
