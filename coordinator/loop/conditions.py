"""What a condition of the user's (`where=`) answers of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tpc.errors import DataError
from tpc.user_code import described, is_refusal, name_of, require_done, said

_PLAIN = frozenset((bool, type(None), int))


def answers(kind: str, where: Callable[[Mapping[str, Any]], Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[bool]:
    """Of each of the rows `kind`. Raises `DataError` with the row of which the function raises."""
    for row in rows:
        try:
            answer = where(row)
            if type(answer) not in _PLAIN:
                require_done(answer, f"where= ({name_of(where)})")
            yield bool(answer)
        except Exception as error:
            if not is_refusal(error):
                raise
            raise DataError(
                f"where= ({name_of(where)}) refuses a row of {kind!r}: {said(error)}; the row is {described(row, 200)}",
                function=f"where= ({name_of(where)})",
                remedy="correct the condition, or the function that makes the row, then start the program again: the "
                "epoch is read again from where it began.",
            ) from error
