"""Sinks whose owner entry fences no coordinator."""

from __future__ import annotations

from tpc.sink import Owner
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink

LATER_S = 600.0
"""Clocks that differ by less are taken for the same."""


class OwnerOverwritten(DirectorySink):
    """Puts the new owner in the place of any other."""

    class Committer(DirectoryCommitter):
        """Compares with nothing."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """Every coordinator that asks becomes the owner."""
            super().take_ownership(owner, self.owner())
            return True

    committer_class = Committer


class OwnerRemembered(DirectorySink):
    """Asks the directory until it owns it, and itself from then on."""

    class Committer(DirectoryCommitter):
        """Spares a write every half minute."""

        mine: Owner | None = None

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """What was ours is ours."""
            if self.mine != owner and super().take_ownership(owner, before):
                self.mine = owner
            return self.mine == owner

    committer_class = Committer


class OwnerComparedThenSet(DirectorySink):
    """Compares first and sets later: of two coordinators at one moment both are told that they own it."""

    class Committer(DirectoryCommitter):
        """Two steps where one act is due."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """In between, others compare too."""
            if self.owner() not in (before, owner):
                return False
            super().take_ownership(owner, self.owner())
            return True

    committer_class = Committer


class OwnerByGeneration(DirectorySink):
    """Compares the generation only, which two copies of a checkpoint share."""

    class Committer(DirectoryCommitter):
        """`UPDATE ... WHERE generation = ...`."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """Whoever knows the number."""
            found = self.owner()
            known = found is not None and before is not None and found.generation == before.generation
            return super().take_ownership(owner, found if known else before)

    committer_class = Committer


class OwnerByNonce(DirectorySink):
    """Compares the nonce only."""

    class Committer(DirectoryCommitter):
        """`UPDATE ... WHERE nonce = ...`."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """Whoever knows the nonce."""
            found = self.owner()
            known = found is not None and before is not None and found.nonce == before.nonce
            return super().take_ownership(owner, found if known else before)

    committer_class = Committer


class OwnerByClock(DirectorySink):
    """Takes the entry with the later time for the newer one, whatever it knows of the other."""

    class Committer(DirectoryCommitter):
        """Last writer wins."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """Whoever has the faster clock."""
            found = self.owner()
            later = found is not None and owner.since > found.since + LATER_S
            return super().take_ownership(owner, found if later else before)

    committer_class = Committer
