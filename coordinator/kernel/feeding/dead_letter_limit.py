"""How many dead letters there may be, in both runtimes, and how many an epoch has."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.errors import ConfigurationError
from tpc.history import History
from tpc.manifest import Manifest

COUNT = "dead_letters"
"""How many an epoch has, in the counts of its manifest: a sink may take other rows beside them."""
WINDOW = 10_000
"""So many events or rows, by whole epochs, the share is taken of."""


@dataclass(frozen=True)
class Tally:
    """Of the last events or rows: how many were `read`, and how many `letters` they have made."""

    letters: int
    read: int


@dataclass(frozen=True)
class DeadLetterLimit:
    """At least `at_least` dead letters, for more than `max_share` of the last events or rows, are too many."""

    sink: str
    max_share: float
    at_least: int

    def __post_init__(self) -> None:
        if not 0 <= self.max_share <= 1 or self.at_least < 1:
            raise ConfigurationError(
                f"dead letters with max_share={self.max_share!r} and at_least={self.at_least!r}",
                sink=self.sink,
                remedy="max_share is from 0 to 1, at_least a number of dead letters from 1.",
            )

    def count_in(self, manifest: Manifest) -> int:
        """How many dead letters an epoch has.

        An epoch of an earlier version of this library does not say it: then all rows of the sink count.
        """
        if (count := manifest.counts.get(COUNT)) is not None:
            return count
        part = manifest.sinks.get(self.sink)
        return 0 if part is None else part.rows

    def too_many(self, letters: int, read: int, history: History) -> Tally | None:
        """The tally of the last epochs where it is above the bound; the running epoch has `letters` of `read`.

        What epochs of before had is read from the log, so that a restart does not begin to count again.
        """
        if not letters:
            return None
        for manifest in sorted(history.manifests.values(), key=lambda each: each.epoch, reverse=True):
            if read >= WINDOW:
                break
            letters += self.count_in(manifest)
            read += manifest.counts.get("rows", 0)
        # An event that two functions refuse makes two letters.
        if letters < self.at_least or min(letters, read) <= self.max_share * read:
            return None
        return Tally(letters, read)
