"""Sinks that keep less than the whole contract and say so, and some that say it wrongly."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tpc.sink import Committable, InDoubt, Limit, Marker, Outcome, Owner, Verdict
from tpc.testing.broken.commits import AppearsPiecemeal
from tpc.testing.broken.owners import OwnerOverwritten
from tpc.testing.directory_disk import handles_of, rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

REASON = "The directory of this test cannot do it."


class WeakSink(AppearsPiecemeal):
    """Everything that can be declared, is declared, and is so."""

    limits = dict.fromkeys(Limit, REASON)

    class Committer(AppearsPiecemeal.Committer, OwnerOverwritten.Committer):
        def _outcome_without_file(self, committable: Committable, visible: Any) -> Outcome:
            if visible.exists():
                return Outcome(Verdict.ALREADY)
            return Outcome(Verdict.UNKNOWN, "neither prepared nor visible")

        def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
            return []

    committer_class = Committer


class ForgetsOldMarkers(DirectorySink):
    """Forgets the older epochs, and of the newest which branch it was."""

    limits = MappingProxyType({Limit.OLD_MARKERS_EXPIRE: REASON})

    class Committer(DirectoryCommitter):
        def newest_marker(self, since_generation: int = 0) -> Marker | None:
            newest = super().newest_marker(since_generation)
            forgotten = newest is not None and (self.sink.root / "forgotten").exists()
            return replace(newest, handle=None) if newest and forgotten else newest

    committer_class = Committer

    def forget_markers(self) -> None:
        """All rows stay."""
        epochs = {path: handle.epoch for path in (self.root / "visible").glob("*") for handle in handles_of(path.name)}
        for path, epoch in epochs.items():
            if epoch < max(epochs.values()):
                path.rename(path.with_name(f"forgotten-{uuid.uuid4()}"))
        (self.root / "forgotten").touch()


class KeyedSink(DirectorySink):
    """Readers see each key as the newest epoch left it."""

    def rows(self) -> list[dict[str, Any]]:
        return list({row["id"]: row for path in self.in_order() for row in rows_of(path)}.values())

    def in_order(self) -> list[Any]:
        """By the epoch; what others have written comes first."""
        return sorted((self.root / "visible").glob("*"), key=self.epoch_of)

    def epoch_of(self, path: Path) -> int:
        return max((handle.epoch for handle in handles_of(path.name)), default=-1)


class KeyedByCommitSink(KeyedSink):
    """Readers see each key as the last commit left it: that of an old epoch, too."""

    class Committer(DirectoryCommitter):
        def _outcome(self, committable: Committable) -> Outcome:
            outcome = super()._outcome(committable)
            if outcome.settled:
                os.utime(self.sink.root / "visible" / committable.resource, ns=(time.time_ns(), time.time_ns()))
            return outcome

    committer_class = Committer

    def in_order(self) -> list[Any]:
        return sorted((self.root / "visible").glob("*"), key=lambda path: path.stat().st_mtime_ns)


class LimitWithoutReason(DirectorySink):
    """Declares a limit, and does not say why."""

    limits = MappingProxyType({Limit.OWNER_NOT_FENCED: ""})


class LimitWithoutNeed(DirectorySink):
    """Declares what it does not have."""

    limits = MappingProxyType({Limit.ORPHANS_NOT_LISTED: REASON})
