"""The savepoints at one place: what there is, how old, and what may go. A pipeline's only home never goes by itself.

What a place is, a folder or a URL, stands in `homes`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tpc.coordinator.savepoints.homes import Home
from tpc.coordinator.savepoints.manifest import Kind, SavepointManifest
from tpc.errors import ConfigurationError, TpcError, TransientError

_DAY_S = 86_400.0


@dataclass(frozen=True)
class Kept:
    """A savepoint. `moved_to` is where its pipeline went on from it, None while it did not."""

    home: Home
    name: str
    manifest: SavepointManifest
    moved_to: str | None

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self.home.place(self.name)

    @property
    def is_only_home(self) -> bool:
        """Whether its pipeline has ended with it and goes on nowhere, as far as its place knows."""
        return self.manifest.kind is Kind.MOVE and self.moved_to is None

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
            "sinks": {
                name: {"identity": sink.identity, "epoch": sink.epoch, "asked": sink.asked}
                for name, sink in self.manifest.sinks.items()
            },
        }


def look_at(home: Home, name: str) -> Kept:
    """The savepoint of that name; its files are not read. Raises as `Home.manifest` does."""
    return Kept(home, name, home.manifest(name), home.moved_to(name))


def savepoints_in(home: Home) -> tuple[list[Kept], dict[str, str]]:
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


def drop(home: Home, name: str, *, force: bool = False) -> Kept:
    """Remove a savepoint. One that is its pipeline's only home goes with `force` alone (`ConfigurationError`)."""
    kept = look_at(home, name)
    if kept.is_only_home and not force:
        raise ConfigurationError(
            f"the pipeline {kept.manifest.pipeline} has ended with the savepoint {kept.place} and was not moved from "
            "it: without it the pipeline cannot go on",
            pipeline=str(kept.manifest.pipeline),
            epoch=kept.manifest.epoch,
            remedy="restore it first, or drop it with --force if a copy of it lies elsewhere.",
        )
    home.remove(name)
    return kept


def prune(home: Home, *, keep: int, older_than_days: float, now_s: float | None = None) -> list[Kept]:
    """Drop the savepoints there that are older than so many days, but the newest `keep` of each incarnation.

    One that is its pipeline's only home stays. Returns what was dropped, the oldest first.
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
