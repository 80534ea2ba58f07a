"""The savepoints at one place: what there is, how old, and what may go. A pipeline's only home never goes by itself.

What a place is, a folder or a URL, is in `locations`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tpc.coordinator.operations.savepoints.locations import Home
from tpc.coordinator.operations.savepoints.manifest import Kind, SavepointManifest
from tpc.coordinator.operations.savepoints.move_note import Move
from tpc.errors import ConfigurationError, TpcError, TransientError

_DAY_S = 86_400.0


@dataclass(frozen=True)
class StoredSavepoint:
    """A savepoint. `move` is where its pipeline goes on from it, None where it does not."""

    home: Home
    name: str
    manifest: SavepointManifest
    move: Move | None

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.home.place(self.name)

    @property
    def is_only_home(self) -> bool:
        """Whether its pipeline has ended with it and is whole nowhere else, as far as its place knows."""
        return self.manifest.kind is Kind.MOVE and self.moved_to is None

    @property
    def moved_to(self) -> str | None:
        """Where its pipeline went on from it; None while it did not, or not all of it is there."""
        return self.move.to if self.move is not None and self.move.has_ended else None

    @property
    def moving_to(self) -> str | None:
        """Where a restore of it has begun and, as far as its place knows, not ended."""
        return self.move.to if self.move is not None and not self.move.has_ended else None

    def to_json(self, now_s: float) -> dict[str, Any]:
        """What the commands tell of it."""
        return {
            "savepoint": self.place,
            "kind": self.manifest.kind.value,
            "pipeline": str(self.manifest.pipeline),
            "epoch": self.manifest.epoch,
            "generation": self.manifest.generation,
            "made_at": self.manifest.made_at,
            "age_s": round(now_s - self.manifest.made_at, 1),
            "size_bytes": self.manifest.size_bytes,
            "files": len(self.manifest.files),
            "moved_to": self.moved_to,
            "moving_to": self.moving_to,
            "sinks": {
                name: {"identity": sink.identity, "epoch": sink.epoch, "asked": sink.asked}
                for name, sink in self.manifest.sinks.items()
            },
        }


def look_at(home: Home, name: str) -> StoredSavepoint:
    """The savepoint of that name; its files are not read. Raises as `Home.manifest` does."""
    return StoredSavepoint(home, name, home.manifest(name), home.move(name))


def savepoints_in(home: Home) -> tuple[list[StoredSavepoint], dict[str, str]]:
    """All savepoints there, the newest first; and the names of those that are none yet or any more, with the reason.

    Raises as `Home.names` does.
    """
    names, others = home.names()
    kept = []
    for name in names:
        try:
            kept.append(look_at(home, name))
        except TransientError:
            raise  # whether it is one is not known
        except TpcError as error:
            others[name] = error.what
    return sorted(kept, key=lambda one: one.manifest.made_at, reverse=True), others


def drop(home: Home, name: str, *, force: bool = False) -> str:
    """Remove a savepoint, or what an interrupted removal has left of one; where it was.

    One that is its pipeline's only home goes with `force` alone (`ConfigurationError`).
    """
    if not home.is_half_removed(name):
        kept = look_at(home, name)
        if kept.is_only_home and not force:
            raise _only_home(kept)
    home.remove(name)
    return home.place(name)


def _only_home(kept: StoredSavepoint) -> ConfigurationError:
    what = "was not moved from it"
    remedy = "restore it first, or drop it with --force if a copy of it lies elsewhere."
    if kept.moving_to is not None:
        what = f"the restore of it to {kept.moving_to} has not ended"
        remedy = (
            "repeat that restore with the same words, which ends it. If `tpc status` there shows that it has ended, or "
            "a copy of the savepoint lies elsewhere, drop it with --force."
        )
    return ConfigurationError(
        f"the pipeline {kept.manifest.pipeline} has ended with the savepoint {kept.place}, and {what}: without it the "
        "pipeline cannot go on",
        pipeline=str(kept.manifest.pipeline),
        epoch=kept.manifest.epoch,
        remedy=remedy,
    )


def prune(home: Home, *, keep: int, older_than_days: float, now_s: float | None = None) -> list[str]:
    """Drop the savepoints there that are older than so many days, but the newest `keep` of each incarnation.

    One that is its pipeline's only home stays. Returns where those were that are dropped, the oldest first.
    """
    now_s = time.time() if now_s is None else now_s
    kept, _ = savepoints_in(home)
    seen: dict[str, int] = {}
    doomed = []
    for one in kept:
        name = str(one.manifest.pipeline)
        seen[name] = seen.get(name, 0) + 1
        old = now_s - one.manifest.made_at > older_than_days * _DAY_S
        if seen[name] > keep and old and not one.is_only_home:
            doomed.append(one)
    return [drop(home, one.name) for one in reversed(doomed)]
