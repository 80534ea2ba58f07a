"""How far a guarded commit has come with a branch: kept in the marker, so that it is known without the documents.

`progress.<handle>: {operations, refused, in_doubt}` in the marker document; '.' of names is written as ':'. Operations
are counted in the order of the outbox. What was applied is not applied again, also when a consumer has removed its
document since. Between the write of a chunk and the record of it there is a window: without transactions, whoever
goes on after a crash cannot distinguish a document that was never inserted from one that was removed. It takes the
absent ones for never inserted, unless a document of an earlier chunk is gone: then somebody does remove documents of
an unfinished epoch, and the absent ones are `in_doubt`. They are not inserted; an operator decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpc.handles import Handle


@dataclass(frozen=True)
class Progress:
    """What has been done of a branch's operations, by their numbers.

    All below `operations` were tried: `refused` are those that the target did not take, `in_doubt` those that may have
    been applied and removed since; the others are applied.
    """

    operations: int = 0
    refused: frozenset[int] = field(default_factory=frozenset)
    in_doubt: frozenset[int] = field(default_factory=frozenset)

    def is_applied(self, number: int) -> bool:
        """Whether an operation has taken effect, whatever the target holds now."""
        return number < self.operations and number not in self.refused and number not in self.in_doubt

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Progress:
        """As it is in the marker; fields that are not there are empty."""
        refused, in_doubt = (frozenset(document.get(name, ())) for name in ("refused", "in_doubt"))
        return cls(document.get("operations", 0), refused, in_doubt)


@dataclass(frozen=True)
class Step:
    """What one chunk adds to the progress of a branch."""

    numbers: tuple[int, ...]
    refused: frozenset[int] = field(default_factory=frozenset)
    in_doubt: frozenset[int] = field(default_factory=frozenset)

    def changes(self, handle: Handle) -> list[dict[str, Any]]:
        """The updates of the marker, in this order: what is not applied is listed before all is said to be tried.

        Others may be on their way with the same branch: nothing goes back.
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
