"""Describes any value for errors and logs: one line of bounded length. It never raises, whatever the value is.

Text of others is escaped here and nowhere else, where it leaves for a terminal, a log or a page.
"""

from __future__ import annotations

import reprlib
import unicodedata
from typing import Any

LIMIT = 200
"""Characters of a row in an error."""


class _Short(reprlib.Repr):
    """`repr` that shortens long values before it writes them out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = 12
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = 6
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:
        """A large whole number by its size: Python refuses to write out more than some thousand digits."""
        return f"<int of {x.bit_length()} bits>" if x.bit_length() > 256 else repr(x)

    def repr_bytes(self, x: bytes, level: int) -> str:
        """Bytes are shortened as text is."""
        return repr(x) if len(x) <= self.maxstring else f"{x[: self.maxstring]!r}..."

    repr_bytearray = repr_bytes


_SHORT = _Short()


def described(value: Any, limit: int = LIMIT) -> str:
    """The value in at most `limit` characters. One whose `__repr__` fails is described by its type."""
    try:
        text = _SHORT.repr(value)
        return printable(text, limit)
    except Exception:  # noqa: BLE001 - a user's class may raise anything; that must not hide the error being described
        return printable(f"<{type(value).__name__}, which cannot be shown>", limit)


def escaped(text: str) -> str:
    """The text on one line, with escapes (`\\n`, `\\x1b`) for what a terminal acts on or a file cannot hold.

    That is control characters (C0, C1, ESC), marks of direction, separators of lines, halves of surrogates: what
    Unicode calls no printable character. Spaces of other scripts stay. The text of an escape is not escaped again.
    """
    if text.isprintable():
        return text
    return "".join(each if is_shown(each) else ascii(each)[1:-1] for each in text)


def is_shown(character: str) -> bool:
    """Whether it stays as it is."""
    return character.isprintable() or unicodedata.category(character) == "Zs"


def printable(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, with escapes for what a terminal or a file cannot show."""
    shown = escaped(text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
