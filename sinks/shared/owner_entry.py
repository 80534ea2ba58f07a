"""Owner entries as text, and which two of them name the same term. Plain values, no I/O.

`since` plays no part in the comparison: a coordinator writes its own entry again and again, to show that it lives.
"""

from __future__ import annotations

from tpc.errors import CorruptionError
from tpc.handles import DELIMITER
from tpc.json import canonical, parse
from tpc.sink import Owner

ANY_PIPELINE = f"tpc{DELIMITER}"
"""What the names of every pipeline's branches begin with."""


def is_same_term(one: Owner | None, other: Owner | None) -> bool:
    """Whether both are entries of one term, or both none."""
    if one is None or other is None:
        return one is other
    return (one.generation, one.nonce) == (other.generation, other.nonce)


def to_text(owner: Owner) -> str:
    """The entry as JSON."""
    return canonical({"generation": owner.generation, "nonce": owner.nonce, "since": owner.since}).decode()


def from_text(text: str | bytes, where: str) -> Owner:
    """The inverse of `to_text`; `where` says in the error what was read. Raises `CorruptionError`."""
    try:
        value = parse(text)
        return Owner(int(value["generation"]), str(value["nonce"]), float(value["since"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"{where} holds no owner entry: {error!r}") from error
