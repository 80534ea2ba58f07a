"""The savepoints in a folder: what there is, how old, and what may go. A pipeline's only home never goes by itself."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.coordinator.savepoints.manifest import FILE_NAME, LOG, Kind, SavepointManifest, read_manifest
from tpc.coordinator.savepoints.restoring import moved_note
from tpc.errors import ConfigurationError, TpcError
from tpc.support import durable_files

_DAY_S = 86_400.0


@dataclass(frozen=True)
class Kept:
    """A savepoint in a folder. `moved_to` is where its pipeline went on from it, None while it did not."""

    folder: Path
    manifest: SavepointManifest
    moved_to: str | None

    @property
    def is_only_home(self) -> bool:
        """Whether its pipeline has ended with it and goes on nowhere, as far as its folder knows."""
        return self.manifest.kind is Kind.MOVE and self.moved_to is None

    def to_json(self, now_s: float) -> dict[str, Any]:
        """What the commands tell of it."""
        return {
            "savepoint": str(self.folder),
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


def look_at(folder: Path) -> Kept:
    """The savepoint in `folder`; its files are not read. Raises as `read_manifest` does."""
    note = moved_note(folder)
    return Kept(folder, read_manifest(folder), None if note is None else str(note.get("checkpoint")))


def savepoints_in(folder: Path) -> tuple[list[Kept], list[tuple[Path, str]]]:
    """All savepoints right below `folder`, the newest first; and those that are none yet or any more, with the reason.

    Raises `ConfigurationError` when the folder cannot be read.
    """
    kept, others = list[Kept](), list[tuple[Path, str]]()
    try:
        below = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be read: {durable_files.in_words(error)}", remedy="name the folder of the savepoints."
        ) from error
    for path in below:
        if (path / FILE_NAME).exists():
            try:
                kept.append(look_at(path))
            except TpcError as error:
                others.append((path, error.what))
        elif (path / LOG).is_dir():
            others.append((path, "unfinished: repeat the `tpc savepoint` that was interrupted"))
    return sorted(kept, key=lambda one: one.manifest.made_at, reverse=True), others


def drop(folder: Path, *, force: bool = False) -> Kept:
    """Remove a savepoint. One that is its pipeline's only home goes with `force` alone (`ConfigurationError`)."""
    kept = look_at(folder)
    if kept.is_only_home and not force:
        raise ConfigurationError(
            f"the pipeline {kept.manifest.pipeline} has ended with the savepoint {folder} and was not moved from it: "
            "without it the pipeline cannot go on",
            pipeline=str(kept.manifest.pipeline),
            epoch=kept.manifest.epoch,
            remedy="restore it first, or drop it with --force if a copy of it lies elsewhere.",
        )
    durable_files.remove(folder / FILE_NAME)  # first: half of it is no savepoint
    shutil.rmtree(folder)
    return kept


def prune(folder: Path, *, keep: int, older_than_days: float, now_s: float | None = None) -> list[Kept]:
    """Drop the savepoints below `folder` that are older than so many days, but the newest `keep` of each incarnation.

    One that is its pipeline's only home stays. Returns what was dropped, the oldest first.
    """
    now_s = time.time() if now_s is None else now_s
    kept, _ = savepoints_in(folder)
    seen: dict[str, int] = {}
    doomed = []
    for one in kept:
        name = str(one.manifest.pipeline)
        seen[name] = seen.get(name, 0) + 1
        old = now_s - one.manifest.made_at > older_than_days * _DAY_S
        if seen[name] > keep and old and not one.is_only_home:
            doomed.append(one)
    return [drop(one.folder) for one in reversed(doomed)]
