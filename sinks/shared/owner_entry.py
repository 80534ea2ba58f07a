"""Owner entries as text, and whether two of them name the same generation. Plain values, no I/O.

`since` is not compared: a coordinator writes its own entry again from time to time, with a new `since`.
"""

from __future__ import annotations

from tpc.errors import CorruptionError
from tpc.handles import DELIMITER
from tpc.json import canonical, parse_note
from tpc.sink import Owner

ANY_PIPELINE = f"tpc{DELIMITER}"
"""The beginning of the names of every pipeline's branches."""


def is_same_term(one: Owner | None, other: Owner | None) -> bool:
    """Whether both are entries of one generation, or both None."""
    if one is None or other is None:
        return one is other
    return (one.generation, one.nonce) == (other.generation, other.nonce)


def to_text(owner: Owner) -> str:
    """The entry as JSON."""
    return canonical({"generation": owner.generation, "nonce": owner.nonce, "since": owner.since}).decode()


def from_text(text: str | bytes, where: str) -> Owner:
    """The inverse of `to_text`; `where` names the place in the error. Raises `CorruptionError`."""
    try:
        return parse_note(text, Owner)
    except ValueError as error:
        raise CorruptionError(f"{where} holds no owner entry: {error}") from error
