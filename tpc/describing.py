"""Any value in words, for errors and logs: one line of bounded length, without raising, whatever the value is."""

from __future__ import annotations

import reprlib
from typing import Any

LIMIT = 200
"""Characters of a row in an error."""


class _Short(reprlib.Repr):
    """`repr`, of which long values are cut before they are written out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = 12
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = 6
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        """Of a whole number: Python refuses to write out one of more than some thousand digits."""
        return f"<int of {x.bit_length()} bits>" if x.bit_length() > 256 else repr(x)

    def repr_bytes(self, x: bytes, level: int) -> str:
        """As of text."""
        return repr(x) if len(x) <= self.maxstring else f"{x[: self.maxstring]!r}..."

    repr_bytearray = repr_bytes


_SHORT = _Short()


def described(value: Any, limit: int = LIMIT) -> str:
    """The value in at most `limit` characters. One whose `__repr__` fails is described by its type."""
    try:
        text = _SHORT.repr(value)
        return printable(text, limit)
    except Exception:  # noqa: BLE001 - the code of somebody else's class: describing a row may not hide the error
        return printable(f"<{type(value).__name__}, which cannot be shown>", limit)


def printable(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, with escapes for what a terminal or a file cannot show."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
