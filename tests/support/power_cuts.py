"""What a power cut at any moment would leave of a directory: the order of acts against fsync, tried and not read.

Before every act of this process (fsync, rename, replace, link, unlink, mkdir, rmdir), and after the last one, the
directory is copied as the cut would leave it, in the two ways that a file system may choose: nothing but what was
fsynced is there, or every name is there, and of files that were written since their last fsync nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.lossy_disk import LossyDisk

ACTS = ("fsync", "rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir")


@dataclass(frozen=True)
class Cut:
    """What one cut has left, in a directory of its own."""

    moment: str
    """Before which act, counted from 1, or the end."""
    names_survive: bool
    place: Path

    def __str__(self) -> str:
        return f"{self.moment}, {'every name is there' if self.names_survive else 'only what was fsynced is there'}"


class PowerCuts(LossyDisk):
    """Watches `root`, whose parent holds the copies, from an empty directory on. `during` tells the cuts of an act."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._cuts: list[Cut] | None = None
        self._copies = 0
        self._real = {name: getattr(os, name) for name in ACTS}

    def __enter__(self) -> PowerCuts:
        super().__enter__()
        for name in ACTS:
            setattr(os, name, self._watched(name, getattr(os, name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        super().__exit__(kind, error, trace)

    def during(self, work: Callable[[], object]) -> Iterator[Cut]:
        """The cuts at each moment of `work`, which is done undisturbed; the last ones are after its end."""
        self._cuts = []
        work()
        self._cut("the end")
        cuts, self._cuts = self._cuts, None
        assert len(cuts) > 2, "nothing was done below the directory"
        return iter(cuts)

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            if self._cuts is not None and self._is_below(arguments[-1 if name in ("rename", "replace", "link") else 0]):
                self._cut(f"before act {len(self._cuts) // 2 + 1} ({name})")
            return call(*arguments, **named)

        return watched

    def _is_below(self, target: Any) -> bool:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else Path(target)
        return path.is_relative_to(self.root)

    def _cut(self, moment: str) -> None:
        assert self._cuts is not None
        cuts, self._cuts = self._cuts, None  # copying is no act
        directories = {path.stat().st_ino for path in [self.root, *self.root.rglob("*")] if path.is_dir()}
        for names_survive in (False, True):
            self._copies += 1
            place = self.root.with_name(f"{self.root.name}-after-cut-{self._copies}")
            if names_survive:
                self._copy(self.root, place)
            else:
                self._rebuild(self.root.stat().st_ino, place, directories)
            cuts.append(Cut(moment, names_survive, place))
        self._cuts = cuts

    def _copy(self, source: Path, place: Path) -> None:
        place.mkdir()
        for each in source.iterdir():
            if each.is_dir():
                self._copy(each, place / each.name)
            else:
                written, synced = each.read_bytes(), self._bytes.get(each.stat().st_ino)
                # What was written since the last fsync is there in any part; an empty file is the worst of it.
                (place / each.name).write_bytes(written if written == synced else b"")
