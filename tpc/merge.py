"""Keyed merges: what happens to each column of a key that is already there. Plain values, no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tpc.errors import ConfigurationError


class MergeHow(str, Enum):
    """What happens to a column of a key that is already there."""

    REPLACE = "replace"
    ADD = "add"
    MIN = "min"
    MAX = "max"
    KEEP = "keep"


REQUIRED = "required"
"""In a sink's hint (`tpc.sink.Committer.hint`): the columns in which its target takes no NULL.

Rows of a merge with a NULL there are refused before the rows of a key are reduced to one. Otherwise another row of the
same key and epoch would decide whether a NULL is refused.
"""

_LAST = (MergeHow.REPLACE, MergeHow.MAX)
_FIRST = (MergeHow.KEEP, MergeHow.MIN)


@dataclass(frozen=True)
class TargetOrder:
    """How far the target's order and equality agree with Arrow's, so that rows can be reduced before they reach it.

    The writer of a sink with a target order finishes the reduction, in the target's own order. Where Arrow cannot
    decide between rows of one key (texts that the target compares differently, rows of equal order), the writer gets
    several of them, next to each other. 'add', 'min' and 'max' ignore NULL in them. Numbers, dates, times, booleans and
    bytes are taken to be in Arrow's order. A negative zero in a key, an order, a minimum or a maximum becomes zero.

    Args:
        text_by_bytes: whether texts are compared by their UTF-8 bytes.
        takes_nan: whether NaN may be ordered: it is then the greatest number. Otherwise it is refused.
        wide_sums: whether a partial sum that does not fit 64 bits is passed on as a decimal: the total may still fit.
    """

    text_by_bytes: bool
    takes_nan: bool
    wide_sums: bool


@dataclass(frozen=True)
class MergePlan:
    """A keyed merge: `key` columns, and for every other column what happens if the key is there.

    The rows of an epoch are reduced by key before they reach the writer (one key, one branch, one operation per epoch).
    So a writer of a sink with a merge plan gets each key once, never NULL; with `target` it may get some keys several
    times (`TargetOrder`).

    `replace` takes the whole row with the greatest `order_by`, which it needs. `keep` takes the whole row with the
    smallest one. Beside 'replace', or if the order column is merged with 'max', the order is that of the newest row,
    and `keep` has none: then, as without `order_by`, it takes the stored row. Both take NULLs as they are. A row
    without an order ranks last for both. `add`, `min` and `max` ignore NULLs. The order column is written only if it
    is in `columns` too. `every` applies to all columns that are neither key nor listed; `completed` lists them.
    """

    key: tuple[str, ...]
    columns: Mapping[str, MergeHow]
    order_by: str | None = None
    every: MergeHow | None = None
    target: TargetOrder | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError("a merge needs key columns", remedy="pass key=...")
        if twice := sorted(set(self.key) & set(self.columns)):
            raise ConfigurationError(f"key columns cannot be merged: {twice}", remedy="leave them out of merge.")
        words = {self.every, *self.columns.values()}
        if MergeHow.REPLACE in words and self.order_by is None:
            raise ConfigurationError(
                "merge 'replace' needs an order column: rows of one key arrive in no order",
                remedy="pass order_by='column': the row with its greatest value wins.",
            )
        word = None if self.order_by is None else self.columns.get(self.order_by)
        others = {self.every, *(how for name, how in self.columns.items() if name != self.order_by)}
        keeps = MergeHow.KEEP in others and MergeHow.REPLACE not in others
        if word is not None and word not in (*_LAST, *(_FIRST if keeps else ())):
            raise ConfigurationError(
                f"the order column {self.order_by!r} cannot be merged with '{word.value}': "
                "which row is the newest would depend on how rows are spread over tasks",
                remedy="merge it with 'replace' or 'max' (beside 'keep' alone: 'keep' or 'min'), or leave it out of"
                " merge.",
            )

    @property
    def replaced(self) -> tuple[str, ...]:
        """The columns that the newest row gives, with the order column if it is written. For a completed plan."""
        return self._of_row(MergeHow.REPLACE, MergeHow.MAX)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that the first row gives, with the order column if the target holds the first row's order."""
        return self._of_row(MergeHow.KEEP, MergeHow.MIN)

    def _of_row(self, word: MergeHow, of_order: MergeHow) -> tuple[str, ...]:
        columns = [name for name, how in self.columns.items() if how is word]
        if columns and self.order_by not in columns and self.columns.get(self.order_by or "") is of_order:
            columns.append(str(self.order_by))
        return tuple(columns)

    @property
    def order_is_stored(self) -> bool:
        """Whether the target holds the order of the row that it took, so that later epochs are compared with it."""
        return self.order_by in self.replaced or self.order_by in self.kept

    def completed(self, names: Sequence[str]) -> MergePlan:
        """The plan for rows with these columns, with every column listed to which `every` applies."""
        if self.every is None:
            return self
        rest = {name: self.every for name in names if name not in self.key and name not in self.columns}
        return replace(self, columns={**self.columns, **rest}, every=None)


def merge_plan(
    key: Sequence[str], merge: Mapping[str, str] | str, order_by: str | None, target: TargetOrder | None = None
) -> MergePlan:
    """The plan as users write it: one word for all columns outside the key, or a word by column.

    Raises `ConfigurationError` for an unknown word and for a plan that contradicts itself.
    """
    if isinstance(merge, str):
        return MergePlan(tuple(key), {}, order_by, every=_how(merge), target=target)
    return MergePlan(tuple(key), {column: _how(word) for column, word in merge.items()}, order_by, target=target)


def _how(word: str) -> MergeHow:
    try:
        return MergeHow(word)
    except ValueError:
        raise ConfigurationError(
            f"unknown merge {word!r}", remedy=f"use one of {', '.join(how.value for how in MergeHow)}."
        ) from None
