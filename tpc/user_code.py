"""Checks functions of the user's program, and describes their values and errors without raising.

A function that only makes a coroutine or a generator has done nothing when it returns. It is refused when it is passed
in, as far as that is visible then, and otherwise after its first call.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from tpc.describing import described
from tpc.errors import ConfigurationError, DataError, TpcError
from tpc.machine_limits import is_lack

TEXT_MAX = 500
"""The most characters of an exception's text, or of a value, in an error or a dead letter."""
_CHAIN_MAX = 20
"""The most errors of a chain that are examined: a chain may be a cycle."""
_PLAIN = "make it a plain function (`def`, without `yield`) that has done its work when it returns."
_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("a coroutine function (async def)", inspect.iscoroutinefunction),
    ("an async generator function", inspect.isasyncgenfunction),
    ("a generator function (it has a yield)", inspect.isgeneratorfunction),
)
_ITERATORS = (Iterator,)


class UnkeptValueError(DataError):
    """A value that was read or written earlier cannot be stored as it is now; an earlier event may have changed it."""


def require_plain(function: object, what: str) -> None:
    """Raise `ConfigurationError` for a value that is not a function, or for a function whose call runs nothing.

    `what` says what it is for. A class or a function written in C is accepted; `require_done` checks its first answer.
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
    """Raise `ConfigurationError` for an answer whose work is not done yet; `what` names the function that gave it.

    With `is_iterator_fine` an iterator is accepted, but a generator is not.
    """
    is_generator = inspect.isgenerator(answer) or inspect.isasyncgen(answer) or hasattr(answer, "__anext__")
    is_lazy = not is_iterator_fine and isinstance(answer, _ITERATORS)
    if is_generator or is_lazy or isinstance(answer, (Awaitable, Future)):
        if inspect.iscoroutine(answer):
            answer.close()  # Python would warn that it was never awaited
        raise ConfigurationError(
            f"{what} has answered {described(answer, 100)} ({type(answer).__qualname__}), of which nothing has run yet",
            remedy=_PLAIN,
        )


def is_refusal(error: BaseException) -> bool:
    """Whether an exception of the user's function means that it refuses its value.

    True for a `DataError`, but for no other error of this library, and not where the machine lacks something (memory,
    open files, room on a disk): these concern the run, and need not happen again with the same value.
    """
    if isinstance(error, TpcError):
        return isinstance(error, DataError)
    return isinstance(error, Exception) and not is_lack(error)


def is_unkept(error: BaseException) -> bool:
    """Whether a value could not be stored, also if the function has raised another error because of that."""
    met: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if met is None or isinstance(met, UnkeptValueError):
            return met is not None
        met = met.__cause__ or met.__context__
    return False


def name_of(function: object) -> str:
    """The name of a function for a message. It never raises."""
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
    """A text that every sink takes: without NUL and lone surrogates, and with at most `characters` characters."""
    bounded = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return bounded.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def is_storable(text: str) -> bool:
    """Whether UTF-8, and so the log, can hold the text. It cannot hold lone surrogates, as in some file names."""
    return storable(text) == text


def storable(text: str) -> str:
    r"""The text with escapes such as `\udcff` for what UTF-8 cannot hold; other text is unchanged."""
    return text.encode("utf-8", "backslashreplace").decode()
