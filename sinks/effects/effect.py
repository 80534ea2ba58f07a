"""What a call is given, what it may say besides an answer, and which guarantee holds where nobody knows its outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from tenacity import RetryCallState, Retrying, wait_exponential

from tpc.errors import ConfigurationError, TransientError

logger = logging.getLogger(__name__)


class Guarantee(str, Enum):
    """What follows when a call's outcome is not known: the process died in it, or its answer was lost."""

    AT_LEAST_ONCE = "at-least-once"
    """It is called again with the same key: exactly once if the other side honours the key."""
    AT_MOST_ONCE = "at-most-once"
    """It is never called again: it is `unknown`, for a person."""


class Fate(str, Enum):
    """The state of an effect. Those in `OPEN` are still to be carried out."""

    WAITING = "waiting"
    """Not called yet, or to be called again."""
    CALLING = "calling"
    """Noted before the call: what came of it is not noted yet."""
    DONE = "done"
    DEAD = "dead"
    """Refused too often: the dead letter."""
    UNKNOWN = "unknown"
    """At most once: it was called, and nobody knows what came of that."""
    REPEATED = "repeated"
    """A row as one that is there under its key: the effect is that one's."""
    CONTRADICTORY = "contradictory"
    """Another row stands under its key: it is never called."""


OPEN = (Fate.WAITING, Fate.CALLING)
LEFT = (Fate.DEAD, Fate.UNKNOWN, Fate.CONTRADICTORY)
"""What is left for a person."""


@dataclass(frozen=True)
class Effect:
    """One call: its key, which no repetition and no repair changes, and its row.

    Values are exact: `Decimal`, `datetime` (aware in UTC where the column has a zone), `date`, `bytes`; NULL is None.
    """

    key: str
    row: Mapping[str, Any]
    epoch: int
    refusals: int = 0
    """How often it was refused before."""


Call: TypeAlias = Callable[[Effect], object]
"""Makes one call; what it returns is kept as text. Whatever it raises but the two errors below: nobody knows.

What it returns and what these two errors say are its own words: they are kept in the outbox and shown. Of any other
exception the type's name is, since nobody has chosen its words and they may quote a secret.
"""


class EffectRefusedError(Exception):
    """Raised by a call: the other side says no, and has done nothing. After so many the effect is dead."""

    def __init__(self, what: str) -> None:
        super().__init__(what)


class EffectUnavailableError(Exception):
    """Raised by a call: nothing was done, and nothing is wrong with the effect. It is called again later."""

    def __init__(self, what: str) -> None:
        super().__init__(what)


class EffectAnswerError(Exception):
    """A call returned a coroutine, a generator or a future: nobody knows whether it was made. Never noted as done."""


class EffectsOverdueError(TransientError):
    """A pipeline that waits for its effects has waited too long. All of them are kept, and carried on."""

    remedy_by_default = (
        "restart the pipeline (a supervisor does it): its effects are carried on. Is the other side up? "
        "`tpc effects DIRECTORY` lists what is left."
    )


DOUBLING = wait_exponential(multiplier=0.5, max=60.0)


@dataclass(frozen=True)
class EffectRetry:
    """How often and when an effect is called again. `pause` is any of tenacity's `wait_...`, asked with the attempt.

    Without it, and where it gives no number, the pauses double, from 0.5 s to a minute.
    """

    refusals: int = 3
    """After so many it is dead."""
    pause: Callable[[RetryCallState], float] | None = None

    def pause_s(self, attempt: int) -> float:
        """How long to wait after the attempt of this number, the first is 1."""
        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = attempt
        if self.pause is not None:
            try:
                pause_s = float(self.pause(state))
            except Exception as error:  # noqa: BLE001  it is the user's
                logger.warning("`EffectRetry.pause` failed, the pause is as without it: %s", type(error).__name__)
            else:
                if math.isfinite(pause_s):
                    return pause_s
                logger.warning("`EffectRetry.pause` gave %s, the pause is as without it", pause_s)
        return DOUBLING(state)


# A call must be made when it returns: what only makes a coroutine, a generator or a future has made none.

_REMEDY = (
    "give a plain function that returns when the call is made; within it, asyncio.run(...) or future.result() wait for"
    " what is asynchronous."
)


def require_plain_call(call: Any, sink: str) -> None:
    """Raise `ConfigurationError` for what is no function, and for one whose body does not run when it is called."""
    if not callable(call):
        raise ConfigurationError(f"`call` is a {type(call).__name__}, which cannot be called", sink=sink)
    function = call
    while isinstance(function, partial):
        function = function.func
    for candidate in (function, getattr(type(function), "__call__", None)):  # noqa: B004  its own `__call__` is asked
        for is_kind, kind in _KINDS:
            if is_kind(candidate):
                what = f"`call` is {kind}: calling it makes no call, and every effect would be noted as done"
                raise ConfigurationError(what, sink=sink, remedy=_REMEDY)


def made(answer: object) -> object:
    """`answer`, if it is one. Raises `EffectAnswerError` for what is still to run."""
    pending = inspect.isawaitable(answer) or inspect.isgenerator(answer) or inspect.isasyncgen(answer)
    if not pending and not isinstance(answer, Future | asyncio.Future):
        return answer
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()  # else Python complains later, far from here, that nobody has waited for it
    kind = type(answer).__name__
    raise EffectAnswerError(f"the call returned a {kind}, which is no answer: it may not have run. {_REMEDY}")


_KINDS = (
    (inspect.iscoroutinefunction, "a coroutine function (async def)"),
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
    (inspect.isgeneratorfunction, "a generator function (it has a yield)"),
)
