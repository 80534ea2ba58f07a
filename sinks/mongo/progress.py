"""The progress of a guarded commit with a branch. The marker stores it, so that it does not depend on the documents.

It is `progress.<handle>: {operations, refused, in_doubt}` in the marker document; '.' in names is written as ':'.
Operations are counted in the order of the outbox. An applied operation is not applied again, also if a consumer has
removed its document since.

A crash may come between the write of a chunk and its record. Without transactions a later commit then cannot
distinguish a document that was never inserted from one that was removed. It takes missing documents for never inserted,
unless a document of an earlier chunk is missing too. In that case a consumer does remove documents of unfinished
epochs, and the missing ones are `in_doubt`: they are not inserted, and an operator decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpc.handles import Handle


@dataclass(frozen=True)
class Progress:
    """The state of a branch's operations, by their numbers.

    All below `operations` were tried: the target refused those in `refused`; those in `in_doubt` may have been applied
    and removed since; the others are applied.
    """

    operations: int = 0
    refused: frozenset[int] = field(default_factory=frozenset)
    in_doubt: frozenset[int] = field(default_factory=frozenset)

    def is_applied(self, number: int) -> bool:
        """Whether an operation has taken effect, also if its document was removed since."""
        return number < self.operations and number not in self.refused and number not in self.in_doubt

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Progress:
        """The progress from the marker; missing fields are empty."""
        refused, in_doubt = (frozenset(document.get(name, ())) for name in ("refused", "in_doubt"))
        return cls(document.get("operations", 0), refused, in_doubt)


@dataclass(frozen=True)
class Step:
    """What one chunk adds to the progress of a branch."""

    numbers: tuple[int, ...]
    refused: frozenset[int] = field(default_factory=frozenset)
    in_doubt: frozenset[int] = field(default_factory=frozenset)

    def changes(self, handle: Handle) -> list[dict[str, Any]]:
        """The updates of the marker, in this order: first list what is not applied, then count the chunk as tried.

        Other processes may apply the same branch at the same time, so no update lowers a number.
        """
        at = progress_field(handle)
        applied = [number for number in self.numbers if number not in self.refused | self.in_doubt]
        lists = {"refused": self.refused, "in_doubt": self.in_doubt}
        added = {f"{at}.{name}": {"$each": sorted(found)} for name, found in lists.items() if found}
        tried: dict[str, Any] = {"$max": {f"{at}.operations": max(self.numbers) + 1}}
        if applied:
            tried["$pullAll"] = {f"{at}.{name}": applied for name in lists}
        return [*([{"$addToSet": added}] if added else []), tried]


def progress_field(handle: Handle) -> str:
    """The path of a branch's progress in the marker. Names hold no ':', so it can stand for '.' in them."""
    return f"progress.{_key(str(handle))}"


def progress_of(document: Mapping[str, Any]) -> dict[str, Progress]:
    """The progress of every branch in a marker, by handle. Markers of older versions have none."""
    kept: Mapping[str, Any] = document.get("progress", {})
    return {key.replace(":", "."): Progress.of(found) for key, found in kept.items()}


def forgotten(handles: Iterable[str]) -> dict[str, str]:
    """The `$unset` that removes the progress of these branches."""
    return {f"progress.{_key(handle)}": "" for handle in handles}


def _key(handle: str) -> str:
    return handle.replace(".", ":")
