"""Something happens before a function of a sink's committer, whenever that is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def before_each(place: Any, name: str, action: Callable[[], None]) -> Iterator[None]:
    """While it is open, `action` is called before `place.name`; what it does itself is done without that."""
    original = getattr(place, name)
    busy: list[bool] = []

    def called(*arguments: Any, **named: Any) -> Any:
        if not busy:
            busy.append(True)
            try:
                action()
            finally:
                busy.clear()
        return original(*arguments, **named)

    with mock.patch.object(place, name, called):
        yield
