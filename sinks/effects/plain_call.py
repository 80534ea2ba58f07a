"""A call must be made when it returns: what only makes a coroutine, a generator or a future has made none."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import Future
from functools import partial
from typing import Any

from tpc.errors import ConfigurationError
from tpc.sinks.effects.effect import EffectAnswerError

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
