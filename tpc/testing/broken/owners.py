"""Sinks whose owner entry fences nobody."""

from __future__ import annotations

import time

from tpc.sink import Owner
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink


class OwnerOverwritten(DirectorySink):
    """Puts the new owner in the place of any other."""

    class Committer(DirectoryCommitter):
        """Compares with nothing."""

        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            """Whoever comes, owns."""
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
            time.sleep(0.05)
            super().take_ownership(owner, self.owner())
            return True

    committer_class = Committer
