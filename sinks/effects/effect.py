"""What a call is given, what it may raise, and which guarantee holds if its outcome is unknown."""

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
    """What follows if a call's outcome is unknown: the process died in it, or its answer was lost."""

    AT_LEAST_ONCE = "at-least-once"
    """It is called again with the same key: exactly once if the other system honours the key."""
    AT_MOST_ONCE = "at-most-once"
    """It is never called again: it becomes `unknown`, and a person decides."""


class Fate(str, Enum):
    """The state of an effect. Those in `OPEN` are still to be carried out."""

    WAITING = "waiting"
    """Not called yet, or to be called again."""
    CALLING = "calling"
    """Noted before the call; its outcome is not noted yet."""
    DONE = "done"
    DEAD = "dead"
    """Refused too often: the dead letter."""
    UNKNOWN = "unknown"
    """At most once: it was called, and the outcome is unknown."""
    REPEATED = "repeated"
    """An identical row with its key exists already: its effect is used."""
    CONTRADICTORY = "contradictory"
    """A different row with its key exists already: it is never called."""


OPEN = (Fate.WAITING, Fate.CALLING)
LEFT = (Fate.DEAD, Fate.UNKNOWN, Fate.CONTRADICTORY)
"""The states that are left for a person."""


@dataclass(frozen=True)
class Effect:
    """One call: its key, which is the same in every repetition and repair, and its row.

    Values are exact: `Decimal`, `datetime` (aware in UTC where the column has a zone), `date`, `bytes`; NULL is None.
    """

    key: str
    row: Mapping[str, Any]
    epoch: int
    refusals: int = 0
    """How often it was refused before."""


Call: TypeAlias = Callable[[Effect], object]
"""Makes one call; its answer is stored as text. After any exception but the two below its outcome is unknown.

The answer and the text of these two errors are stored in the outbox and shown. Of any other exception only the type's
name is stored, since its text may quote a secret.
"""


class EffectRefusedError(Exception):
    """Raised by a call: the other system refuses, and did nothing. After `EffectRetry.refusals` the effect is dead."""

    def __init__(self, what: str) -> None:
        super().__init__(what)


class EffectUnavailableError(Exception):
    """Raised by a call: nothing was done, and the effect is not at fault. It is called again later."""

    def __init__(self, what: str) -> None:
        super().__init__(what)


class EffectAnswerError(Exception):
    """A call returned a coroutine, a generator or a future: it may not have been made. It is never noted as done."""


class EffectsOverdueError(TransientError):
    """A pipeline that waits for its effects has waited too long. All effects are kept; a start goes on with them."""

    remedy_by_default = (
        "check that the other system is up, then restart the pipeline (a supervisor does that): it goes on with its "
        "effects. `tpc effects DIRECTORY` lists what is left."
    )


DOUBLING = wait_exponential(multiplier=0.5, max=60.0)


@dataclass(frozen=True)
class EffectRetry:
    """How often and when an effect is called again. `pause` is one of tenacity's `wait_...`; it gets the attempt.

    Without it, or if it returns no number, the pauses double from 0.5 s to a minute.
    """

    refusals: int = 3
    """After so many refusals the effect is dead."""
    pause: Callable[[RetryCallState], float] | None = None

    def pause_s(self, attempt: int) -> float:
        """How long to wait after the attempt of this number, counted from 1."""
        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = attempt
        if self.pause is not None:
            try:
                pause_s = float(self.pause(state))
            except Exception as error:  # noqa: BLE001  a user's function may raise anything
                logger.warning("`EffectRetry.pause` failed, the default pause is used: %s", type(error).__name__)
            else:
                if math.isfinite(pause_s):
                    return pause_s
                logger.warning("`EffectRetry.pause` returned %s, the default pause is used", pause_s)
        return DOUBLING(state)


# A call must be finished when the function returns: one that only makes a coroutine, a generator or a future is not.

_REMEDY = (
    "give a plain function that returns when the call is made; within it, asyncio.run(...) or future.result() wait for"
    " what is asynchronous."
)


def require_plain_call(call: Any, sink: str) -> None:
    """Raise `ConfigurationError` for a value that is not a function, or a function whose body a call does not run."""
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
    """Return `answer`. Raises `EffectAnswerError` if it has still to run."""
    pending = inspect.isawaitable(answer) or inspect.isgenerator(answer) or inspect.isasyncgen(answer)
    if not pending and not isinstance(answer, Future | asyncio.Future):
        return answer
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()  # otherwise Python warns later that it was never awaited
    kind = type(answer).__name__
    raise EffectAnswerError(f"the call returned a {kind}, which is no answer: it may not have run. {_REMEDY}")


_KINDS = (
    (inspect.iscoroutinefunction, "a coroutine function (async def)"),
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
    (inspect.isgeneratorfunction, "a generator function (it has a yield)"),
)
