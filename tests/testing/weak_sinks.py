"""Sinks that keep less than the whole contract and say so, and some that say it wrongly."""

from __future__ import annotations

import os
import time
import uuid
from types import MappingProxyType
from typing import Any

from tpc.sink import Committable, InDoubt, Limit, Outcome, Owner, Verdict
from tpc.testing.broken.commits import AppearsPiecemeal
from tpc.testing.broken.owners import OwnerOverwritten
from tpc.testing.directory_disk import rows_of
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

    def forget_markers(self) -> None:
        """The rows stay, and nothing tells whose they are."""
        for path in (self.root / "visible").glob("*"):
            path.rename(path.with_name(f"forgotten-{uuid.uuid4()}"))


class KeyedSink(DirectorySink):
    """Readers see each key as the newest epoch left it."""

    def rows(self) -> list[dict[str, Any]]:
        return list({row["id"]: row for path in self.in_order() for row in rows_of(path)}.values())

    def in_order(self) -> list[Any]:
        """By the epoch, which is the sixth field of a handle."""
        return sorted((self.root / "visible").glob("*"), key=lambda path: int(path.name.split("~")[5]))


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
