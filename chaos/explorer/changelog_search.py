"""The search through what can happen to a state's changelog."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.chaos.explorer.changelog_world import ChangelogWorld, check, is_goal, moves
from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.small_search import SmallSearch


@dataclass(frozen=True)
class ChangelogScope:
    """How much may happen to a changelog beside what must."""

    changelog_faults: int = 2

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        return SmallSearch(moves, check, is_goal).run(ChangelogWorld(faults=self.changelog_faults))
