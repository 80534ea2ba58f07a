"""Keyed merges: what happens to each column of a key that is already there. Plain values, no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tpc.errors import ConfigurationError


class MergeHow(str, Enum):
    """What happens to a column of a key that is already there."""

    REPLACE = "replace"
    ADD = "add"
    MIN = "min"
    MAX = "max"
    KEEP = "keep"


_ORDERING = (MergeHow.REPLACE, MergeHow.MAX)


@dataclass(frozen=True)
class MergePlan:
    """A keyed merge: `key` columns, and for every other column what happens when the key is there.

    The rows of an epoch are reduced by key before they reach the writer (one key, one branch, one operation
    per epoch), so a writer of a sink with a merge plan gets each key once, never NULL. `replace` needs
    `order_by`: of several rows with one key in one epoch the one with the greatest value wins; it is reduced
    like any other column and only written when it is also in `columns`. A NULL never changes a merged value.
    `every` stands for all columns that are neither key nor listed; `completed` lists them.
    """

    key: tuple[str, ...]
    columns: Mapping[str, MergeHow]
    order_by: str | None = None
    every: MergeHow | None = None

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError("a merge needs key columns", remedy="pass key=...")
        if twice := sorted(set(self.key) & set(self.columns)):
            raise ConfigurationError(f"key columns cannot be merged: {twice}", remedy="leave them out of merge.")
        if MergeHow.REPLACE in (self.every, *self.columns.values()) and self.order_by is None:
            raise ConfigurationError(
                "merge 'replace' needs an order column: rows of one key arrive in no order",
                remedy="pass order_by='column': the row with its greatest value wins.",
            )

        if self.order_by is not None and self.columns.get(self.order_by, MergeHow.MAX) not in _ORDERING:
            raise ConfigurationError(
                f"the order column {self.order_by!r} cannot be merged with '{self.columns[self.order_by].value}': "
                "which row is the newest would depend on how rows are spread over tasks",
                remedy="merge it with 'replace' or 'max', or leave it out of merge.",
            )

    def completed(self, names: Sequence[str]) -> MergePlan:
        """The plan for rows with these columns, every column listed that `every` stood for."""
        if self.every is None:
            return self
        rest = {name: self.every for name in names if name not in self.key and name not in self.columns}
        return replace(self, columns={**self.columns, **rest}, every=None)


def merge_plan(key: Sequence[str], merge: Mapping[str, str] | str, order_by: str | None) -> MergePlan:
    """The plan as users say it: one word for all columns that are not key, or a word by column.

    Raises `ConfigurationError` for a word that is not known and for what contradicts itself.
    """
    if isinstance(merge, str):
        return MergePlan(tuple(key), {}, order_by, every=_how(merge))
    return MergePlan(tuple(key), {column: _how(word) for column, word in merge.items()}, order_by)


def _how(word: str) -> MergeHow:
    try:
        return MergeHow(word)
    except ValueError:
        raise ConfigurationError(
            f"merge {word!r} is not known", remedy=f"use one of {', '.join(how.value for how in MergeHow)}."
        ) from None
