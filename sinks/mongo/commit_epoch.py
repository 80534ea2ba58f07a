"""Commits the branches of one decided epoch: the order of the steps, and what every finding means.

Look at the marker, check the outbox of every branch, apply, set the marker, empty the outbox. In a transaction all
branches of an epoch share one fate; guarded, each has its own, and the marker lists those that are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.errors import TpcError
from tpc.handles import DELIMITER, Handle
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.mongo.apply import apply_guarded, apply_in_transaction
from tpc.sinks.mongo.connection import Client, DocumentCollection, in_words
from tpc.sinks.mongo.guarded_writes import Stamp
from tpc.sinks.mongo.markers import EpochMarker, Markers
from tpc.sinks.mongo.outbox import Outbox, beginning_with
from tpc.sinks.mongo.transactions import RefusedError, run_transaction

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

NO_EPOCH = -1
"""Stands for the epoch of a marker that is not there."""
MARKER_ATTEMPTS = 5

Outcomes = dict[Handle, Outcome]
Branches = Sequence[Committable]


@dataclass(frozen=True)
class EpochCommit:
    """Commits epochs of one sink. `is_transactional` says whether so many operations are applied in one transaction."""

    client: Client
    target: DocumentCollection
    outbox: Outbox
    markers: Markers
    is_append: bool
    is_transactional: Callable[[int], bool]
    timeout_s: float

    def commit(self, branches: Branches) -> Outcomes:
        """The outcome of every branch; all of them of one epoch."""
        from pymongo.errors import PyMongoError

        outcomes: Outcomes = {}
        try:
            marker = self._marker_of(branches[0].handle)
            settled = [branch for branch in branches if marker is not None and marker.settles(branch.handle)]
            if settled and marker is not None:
                outcomes.update(_all(settled, Verdict.ALREADY, f"the marker is at epoch {marker.epoch}"))
                self.outbox.delete(settled)
            rest = [branch for branch in branches if branch not in settled]
            if rest:
                outcomes.update(self._commit_unmarked(rest))
        except PyMongoError as error:
            return {**_all(branches, Verdict.UNKNOWN, in_words(error)), **outcomes}
        except TpcError as error:
            return {**_all(branches, Verdict.UNKNOWN, error.what), **outcomes}
        return outcomes

    def _commit_unmarked(self, branches: Branches) -> Outcomes:
        transactional = self.is_transactional(sum(branch.rows for branch in branches))
        states = {branch.handle: self.outbox.state(branch) for branch in branches}
        broken = [branch for branch in branches if states[branch.handle] is not None]
        outcomes = {branch.handle: self._judged(branch, str(states[branch.handle])) for branch in broken}
        sound = [branch for branch in branches if branch not in broken]
        if broken and transactional:
            # All of the epoch or nothing: what happens to the broken branch happens to the others.
            worst = next(iter(outcomes.values()))
            shared_fate = f"in one transaction with another branch: {worst.evidence}"
            return {**_all(sound, worst.verdict, shared_fate), **outcomes}
        if sound:
            outcomes.update((self._transactionally if transactional else self._guarded)(sound))
        return outcomes

    def _judged(self, branch: Committable, state: str) -> Outcome:
        """What it means that a branch's outbox is 'missing' or 'damaged'. Lost needs more than absence."""
        if state == "damaged":
            return Outcome(Verdict.REFUSED, f"the outbox documents of {branch.resource} are not those prepared")
        # Whoever applied it set the marker before the outbox was emptied: only a look after the outbox tells.
        marker = self._marker_of(branch.handle)
        if marker is not None and marker.settles(branch.handle):
            return Outcome(Verdict.ALREADY, f"the marker is at epoch {marker.epoch}")
        newest, expected = NO_EPOCH if marker is None else marker.epoch, branch.data.get("after")
        if newest != expected:
            what = f"outbox documents are gone and the marker is at epoch {newest}, not at {expected} as at prepare"
            return Outcome(Verdict.UNKNOWN, f"{what}: was a backup restored?", contradiction=True)
        if self.is_append and self._is_partly_applied(branch):
            return Outcome(Verdict.REFUSED, "outbox documents are gone after a part of the branch was applied")
        return Outcome(Verdict.LOST, f"outbox documents are gone, the marker is still at epoch {newest}")

    def _is_partly_applied(self, branch: Committable) -> bool:
        """Whether rows of an append are in the target: written again they would be there twice."""
        ids = {"$regex": beginning_with(branch.resource + DELIMITER)}
        return self.target.find_one({"_id": ids}, {"_id": 1}) is not None

    def _guarded(self, branches: Branches) -> Outcomes:
        outcomes: Outcomes = {}
        for branch in branches:
            stamp = Stamp.of(branch.handle, guarded=True)
            refusal = apply_guarded(self.target, self.outbox.operations(branch), stamp)
            if refusal is not None:
                outcomes[branch.handle] = Outcome(Verdict.REFUSED, refusal.reason)
        applied = [branch for branch in branches if branch.handle not in outcomes]
        if applied:
            self._mark(applied)
            self.outbox.delete(applied)
            outcomes.update(_all(applied, Verdict.COMMITTED, "applied guarded"))
        return outcomes

    def _mark(self, branches: Branches) -> None:
        for _ in range(MARKER_ATTEMPTS):
            seen = self._marker_of(branches[0].handle)
            left = [branch for branch in branches if seen is None or not seen.settles(branch.handle)]
            if not left or self.markers.advance(seen, left):
                return
        raise TpcError(f"the marker changed {MARKER_ATTEMPTS} times while it was being set")

    def _transactionally(self, branches: Branches) -> Outcomes:
        def body(session: ClientSession) -> bool:
            seen = self._marker_of(branches[0].handle, session)
            if seen is not None and all(seen.settles(branch.handle) for branch in branches):
                return False
            # Set first: a second committer of this epoch conflicts here, before it has written anything.
            if not self.markers.advance(seen, branches, session):
                raise TpcError("the marker changed inside the transaction")
            for branch in branches:
                stamp = Stamp.of(branch.handle, guarded=False)
                apply_in_transaction(self.target, self.outbox.operations(branch), stamp, session)
            self.outbox.delete(branches, session)
            return True

        try:
            applied = run_transaction(self.client, body, self.timeout_s)
        except RefusedError as error:
            return _all(branches, Verdict.REFUSED, error.refusal.reason)
        return _all(branches, Verdict.COMMITTED if applied else Verdict.ALREADY, "in one transaction")

    def _marker_of(self, handle: Handle, session: ClientSession | None = None) -> EpochMarker | None:
        """The marker of a branch's sink."""
        return self.markers.read(handle.pipeline, handle.sink, session)


def _all(branches: Branches, verdict: Verdict, evidence: str) -> Outcomes:
    return {branch.handle: Outcome(verdict, evidence) for branch in branches}
