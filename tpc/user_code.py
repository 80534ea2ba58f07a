"""Functions and values of the user's program: what cannot be called is refused, and anything can be described.

A function that only makes a coroutine or a generator has done nothing when it returns. So it is refused where it is
handed over, as far as that shows, and by its first answer otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from tpc.describing import described
from tpc.errors import ConfigurationError, DataError, TpcError

TEXT_MAX = 500
"""Characters of an exception's text, or of a value, that an error or a dead letter holds."""
_CHAIN_MAX = 20
"""Errors that are looked at: a chain may be a circle."""
_PLAIN = "make it a plain function (`def`, without `yield`) that has done its work when it returns."
_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("a coroutine function (async def)", inspect.iscoroutinefunction),
    ("an async generator function", inspect.isasyncgenfunction),
    ("a generator function (it has a yield)", inspect.isgeneratorfunction),
)
_ITERATORS = (Iterator,)


class UnkeptValueError(DataError):
    """A value cannot be kept as it is now, after it was handed out or written: by an event before this one, perhaps."""


def require_plain(function: object, what: str) -> None:
    """Raise `ConfigurationError` for what is no function, or for one whose call runs nothing of it.

    `what` says what it is for. A class or a function of C is taken: its answer is looked at when it is called.
    """
    if not callable(function):
        raise ConfigurationError(f"{what} is {described(function, 100)}, which cannot be called", remedy="pass one.")
    called: Any = function
    while isinstance(called, partial):
        called = called.func
    candidates = [called] if isinstance(called, type) else [called, type(called).__call__]
    for kind, is_kind in _KINDS:
        if any(is_kind(each) for each in candidates):
            raise ConfigurationError(
                f"{what} ({name_of(function)}) is {kind}: a call of it would run nothing", remedy=_PLAIN
            )


def require_done(answer: object, what: str, *, is_iterator_fine: bool = False) -> None:
    """Raise `ConfigurationError` for an answer that stands for work that is not done; `what` has given it.

    With `is_iterator_fine` an iterator is a value as any other, but a generator is not.
    """
    is_generator = inspect.isgenerator(answer) or inspect.isasyncgen(answer) or hasattr(answer, "__anext__")
    is_lazy = not is_iterator_fine and isinstance(answer, _ITERATORS)
    if is_generator or is_lazy or isinstance(answer, (Awaitable, Future)):
        if inspect.iscoroutine(answer):
            answer.close()  # it would warn that nobody has awaited it
        raise ConfigurationError(
            f"{what} has answered {described(answer, 100)} ({type(answer).__qualname__}), of which nothing has run yet",
            remedy=_PLAIN,
        )


def is_refusal(error: BaseException) -> bool:
    """Whether what the user's function raises says that it refuses the value it was given.

    Not an error of this library that concerns the run (but a `DataError`), and not a lack of memory: neither comes
    again with the same value.
    """
    if isinstance(error, TpcError):
        return isinstance(error, DataError)
    return isinstance(error, Exception) and not isinstance(error, MemoryError)


def is_unkept(error: BaseException) -> bool:
    """Whether a function has met a value that cannot be kept, also where it has made another error of that."""
    met: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if met is None or isinstance(met, UnkeptValueError):
            return met is not None
        met = met.__cause__ or met.__context__
    return False


def name_of(function: object) -> str:
    """What to call a function in a message."""
    while isinstance(function, partial):
        function = function.func
    try:
        named = getattr(function, "__qualname__", None) or type(function).__qualname__
        return clean(str(named), 200).replace("<locals>.", "")
    except Exception:  # noqa: BLE001  a description never raises
        return "a function"


def said(error: BaseException) -> str:
    """Type and text of an exception, bounded. It never raises."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """The text of an exception, bounded. It never raises."""
    try:
        return clean(error.what if isinstance(error, TpcError) else str(error), TEXT_MAX)
    except Exception:  # noqa: BLE001  a description never raises
        return "<a text that cannot be shown>"


def clean(text: str, characters: int) -> str:
    """A text that every sink takes: without NUL and without halves of characters, and not longer than that."""
    bounded = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return bounded.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def is_storable(text: str) -> bool:
    """Whether UTF-8 can hold it, as the log does: not half of a character, as Python makes of bytes of a file name."""
    return storable(text) == text


def storable(text: str) -> str:
    r"""The text, with `\udcff` and its like for what UTF-8 cannot hold; any other text stays as it is."""
    return text.encode("utf-8", "backslashreplace").decode()
