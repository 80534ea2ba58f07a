"""Sinks whose markers mislead: read wrongly, remembered too long, or not looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tpc.handles import Handle
from tpc.sink import Committable, Marker, Outcome, Verdict
from tpc.testing.directory_disk import handles_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

LAST_FEW = 10


class EpochZeroIsNone(DirectorySink):
    """Takes epoch 0, the first that Spark has, for no epoch."""

    class Committer(DirectoryCommitter):
        """`if epoch` where `if epoch is not None` is meant."""

        def newest_marker(self, since_generation: int = 0) -> Marker | None:
            """None, as long as only epoch 0 is there."""
            newest = super().newest_marker(since_generation)
            return newest if newest and newest.epoch else None

    committer_class = Committer


class LostWithoutALook(DirectorySink):
    """Says that a branch is lost as soon as it is neither prepared nor visible, whatever the newest marker is."""

    class Committer(DirectoryCommitter):
        """A restored backup is then written over, epoch by epoch."""

        def _outcome_without_file(self, committable: Committable, visible: Path) -> Outcome:
            outcome = super()._outcome_without_file(committable, visible)
            return Outcome(Verdict.LOST, "it is not there") if outcome.contradiction else outcome

    committer_class = Committer


class LostOnlyOnce(DirectorySink):
    """Says that a branch is lost until another branch of its epoch is committed, and never again."""

    class Committer(DirectoryCommitter):
        """After its first answer the epoch cannot be written again."""

        def _outcome_without_file(self, committable: Committable, visible: Path) -> Outcome:
            outcome = super()._outcome_without_file(committable, visible)
            if outcome.verdict is Verdict.LOST and self._newest_epoch() == committable.handle.epoch:
                return Outcome(Verdict.UNKNOWN, "the newest marker is not that of prepare", contradiction=True)
            return outcome

    committer_class = Committer


class LooksAtTheLastFew(DirectorySink):
    """Looks for a branch's marker among the last few epochs only."""

    class Committer(DirectoryCommitter):
        """An older branch is not there, so it must be written again."""

        def _outcome_without_file(self, committable: Committable, visible: Path) -> Outcome:
            outcome = super()._outcome_without_file(committable, visible)
            far_back = committable.handle.epoch <= self._newest_epoch() - LAST_FEW
            return Outcome(Verdict.LOST, "nothing shows it") if far_back and outcome.settled else outcome

    committer_class = Committer


class TidiesWhatIsComplete(DirectorySink):
    """Takes the bookkeeping of an epoch away when it is told to be complete."""

    class Committer(DirectoryCommitter):
        """The newest epoch's too."""

        def completed(self, epoch: int) -> None:
            """Nobody will ask for it again, it thinks."""
            self.sink.forget_markers()

    committer_class = Committer


class RemembersWhatItSaw(DirectorySink):
    """Reads the markers once, and from then on knows only what it has committed itself."""

    class Committer(DirectoryCommitter):
        """A table that is opened once."""

        seen: Handle | None = None
        looked = False

        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            """Its own commits it sees."""
            outcomes = super().commit(committables)
            if any(outcome.verdict is Verdict.COMMITTED for outcome in outcomes):
                self.looked = False
            return outcomes

        def _newest(self) -> Handle | None:
            (self.sink.root / "identity").stat()
            if not self.looked:
                self.seen, self.looked = super()._newest(), True
            return self.seen

    committer_class = Committer


class ReleasesForEverybody(DirectorySink):
    """Removes the older markers of every pipeline when an epoch of its own is released."""

    class Committer(DirectoryCommitter):
        """`DELETE FROM markers WHERE epoch < ...`."""

        def released(self, committables: Sequence[Committable], epoch: int) -> None:
            """The rows stay."""
            for path in (self.sink.root / "visible").glob("*"):
                if any(handle.epoch < epoch - 1 for handle in handles_of(path.name)):
                    path.rename(path.with_name(f"released-{path.name}"))

    committer_class = Committer
