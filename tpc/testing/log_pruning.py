"""The part of the log kit about a pruning that is interrupted: whoever comes late finds no slot to put into.

The other parts, and how a log is tried, stand in `log_conformance.py` and `log_chain.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import count

import pytest

from tpc.errors import LogGoneError
from tpc.testing.log_chain import LogChain, equal, fill, require
from tpc.testing.log_processes import LogUnderTest

LAST = 7
PRUNED = (3, 1, 5, 2, 4)
"""In no order: which comes first is the log's own affair."""


class PruningInterrupted(BaseException):
    """The process ends here: nothing in a log may catch it."""


class LogPruning(LogChain):
    """What is asked of a pruning that did not come to its end."""

    NO_INTERRUPTED_PRUNING = "`interrupting_pruning` is not provided"
    """Why no pruning can be interrupted; empty if `interrupting_pruning` is provided."""

    def interrupting_pruning(self, at: int) -> AbstractContextManager[LogUnderTest]:
        """A log whose `delete` raises `PruningInterrupted` right before its act number `at`, counted from 1.

        An act is what can be done without the next one: the removal of a file, a request, a statement, a COMMIT. A
        request that names several slots has one act for each, in the order that is worst.
        """
        raise NotImplementedError

    def test_a_pruning_interrupted_at_any_act_leaves_no_slot_to_an_old_putter(self) -> None:
        if self.NO_INTERRUPTED_PRUNING:
            pytest.skip(self.NO_INTERRUPTED_PRUNING)
        for at in count(1):
            fill(self.make_log(), LAST)
            is_whole = self._pruned(at)
            slots = self.make_log().slots()
            where = f"after a pruning of 1 to 5 that ended before its act {at}"
            equal(slots, list(range(slots[0], LAST + 1)), f"the slots {where}")
            for known in range(1, LAST):
                self._require_stale(known, where)
            equal(self.make_log().slots(), slots, f"the slots {where} and late puts")
            self.make_log().delete(slots)
            if is_whole:
                require(at > 1, "`interrupting_pruning` has interrupted nothing: `delete` has no acts")
                return

    def _pruned(self, at: int) -> bool:
        """Whether the pruning came to its end."""
        with self.interrupting_pruning(at) as log:
            try:
                log.delete(PRUNED)
            except PruningInterrupted:
                return False
        return True

    def _require_stale(self, known: int, where: str) -> None:
        """Who knows slot `known` as the newest learns that it is not."""
        try:
            is_ours = self.make_log().put(known + 1, b"late", b"%d" % known)
            require(not is_ours, f"{where}, who knew slot {known} as the newest put into slot {known + 1}")
            goes_on = self.make_log().goes_on(known, b"%d" % known)
            require(goes_on, f"{where}, who asked whether the log goes on after slot {known} was answered with no")
        except LogGoneError:
            """It learns that it is far behind."""
