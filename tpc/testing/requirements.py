"""How the kit says no: what is wrong, which promise of the contract it breaks, and what to do about it."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import NoReturn

import pytest

_OTHERS = (str(Path(__file__).parents[1]), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
"""Beginnings of the paths of code that no author of a sink has written."""


class Clause(str, Enum):
    """The promises of `tpc/sink.py` that the kit tries."""

    INVISIBLE = "Prepared is durable and invisible: no reader sees a row of a branch before it is committed."
    DURABLE = (
        "Prepared is durable: any process that holds the committable and the sink's settings can commit or abort the "
        "branch, also when the process that wrote it is gone."
    )
    IDEMPOTENT = "Commit is idempotent and says per branch what it found."
    ORDER = "Commit gives one outcome for each committable, in the order given."
    EVIDENCE = "Absence is never proof: every branch carries a marker that tells committed from never prepared."
    DATA = "What readers see is what was written, value by value; what cannot be stored exactly is refused."
    ORDER_OF_ROWS = "Where readers of the system see an order, the rows of a branch are in the order of `write`."
    WHOLE = "A commit makes the rows of a branch visible all at once, unless APPEARS_GRADUALLY is declared."
    ABORT = "Abort undoes branches that nobody decided, exactly these; gone already is fine."
    GIVEN_UP = (
        "`give_up` ends decided branches for good: what is committed stays and is said to be, all else is undone."
    )
    PROMISE = "Prepare promises commit: what can be refused is refused by check, write or prepare."
    VALIDATED = "A validator refuses no row that a writer takes, judges each row by itself, and leaves nothing behind."
    EMPTY = "A branch without rows prepares nothing: `prepare` returns None."
    LISTING = (
        "`in_doubt` lists every branch that is held prepared or open under any incarnation of the pipeline's name."
    )
    NAMES = "Names are delimited: a pipeline, incarnation or sink is never taken for one whose name begins like it."
    MARKER = (
        "`newest_marker` is the newest epoch committed for this pipeline and incarnation, of the highest generation."
    )
    OWNER = "An owner entry per pipeline and incarnation is compared and set, durably."
    ORPHANS = "`all_in_doubt` lists what is prepared for any pipeline, with that pipeline's owner entry."
    DEADLINE = "Every call has a deadline and ends in an error of `tpc.errors`; `commit` answers UNKNOWN, never raises."
    SECRETS = "Secrets are in no repr, committable or error."
    PORTABLE = "Sinks, and errors of writers, travel between processes; committables are small JSON."
    REUSE = "After `released` names may be used again, and after `close` the committer may be used again."
    RESOURCES = "Writers hold nothing after `prepare` and `abort`, committers nothing after `close`."
    CHECK = "`check` and `identity` may be called any number of times and answer alike."
    LIMITS = "What a system cannot do, its sink declares in `limits`, each with the reason in a sentence."
    HOOKS = "Hooks do what they are for, and a hook that a kit does not provide is declared with a reason."


class SourceClause(str, Enum):
    """The promises of `tpc/source.py` that the kit for sources tries."""

    DESCRIPTION = "A source is a picklable description that opens nothing; its readers read."
    POSITION = (
        "A position names a point: a cut has returned everything before it and nothing after it, for any process."
    )
    AGAIN = "The same cut has the same events, in the same order; that depends on its two positions only."
    LOST = "Nothing is skipped silently: a position that the system has lost is refused by `StateLostError`."
    IDENTITY = (
        "`identities` tells what the positions are valid in: another one of the same name is refused, or differs."
    )
    POLL = "`poll` reads at most as many events as it is asked for, waits no longer than it may, and counts rightly."
    PARTS = "A cut has every partition, also one without events, and says which of them held no more."
    ORIGIN = "`Part.origin` names the place of one event, the same whenever the cut is read."
    REFUSED = "An event that `decode` refuses is an event: polled, counted, in its place, and named in `Part.refused`."
    DECODED_AGAIN = "`Part.again` is the same part, decoded again into new objects."
    EXHAUSTED = "`is_exhausted` tells whether everything was polled that was there at the last poll."
    SHARDS = "All shards together read everything once, and an event stays with its shard whatever is added."
    DEADLINE = "Every call has a deadline and ends in an error of `tpc.errors`."
    SECRETS = "Secrets are in no repr, position, identity, place or error."
    RESOURCES = "A reader holds nothing after `close`."
    HOOKS = "Hooks do what they are for, and a hook that a kit does not provide is declared with a reason."


AnyClause = Clause | SourceClause


def refuse(wrong: str, clause: AnyClause, to_do: str) -> NoReturn:
    """Fail the test that calls it."""
    __tracebackhide__ = True
    raise pytest.fail.Exception(f"{wrong}\n  Contract: {clause.value}\n  To do: {to_do}") from None


def require(condition: bool, wrong: str, clause: AnyClause, to_do: str) -> None:
    """Fail the test that calls it unless `condition` holds."""
    __tracebackhide__ = True
    if not condition:
        refuse(wrong, clause, to_do)


@contextmanager
def no_error(doing: str, clause: AnyClause, to_do: str, *expected: type[Exception]) -> Iterator[None]:
    """Fail the test with the contract's words if the block raises, unless it is one of the `expected` kinds."""
    __tracebackhide__ = True
    doing = doing[0].upper() + doing[1:]
    try:
        yield
    except expected:
        raise
    except TimeoutError as error:
        refuse(f"{doing} did not end: {error}.", clause, to_do)
    except Exception as error:  # noqa: BLE001  whatever it is, a driver's own error too, it is not the contract's
        # An error of `tpc.errors` has a remedy of its own, for users; the author of the sink needs the kit's.
        refuse(f"{doing} raised {raised(error)}.", clause, to_do)


def raised(error: BaseException) -> str:
    """An error by class and words, and the line of the author's code from which it came, if it has passed any."""
    said = f"{type(error).__name__}: {getattr(error, 'what', error)}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    return f"{said} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else said
