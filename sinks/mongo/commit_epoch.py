"""Commits the branches of one decided epoch: the order of the steps, and what every finding means.

Read the marker, check the outbox of every branch, apply, set the marker, empty the outbox. In a transaction all
branches of an epoch have one outcome. In guarded mode each has its own, and the marker lists the branches that are
begun (before any operation is applied) and those that are committed. An epoch that was begun in guarded mode may be
finished in a transaction, which then writes guards too. Both ways change the same marker document, so that neither
misses the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.errors import TpcError, TransientError
from tpc.handles import Handle
from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.mongo.apply import UNTOUCHED, apply_guarded, apply_in_transaction
from tpc.sinks.mongo.connection import Client, DocumentCollection, in_words
from tpc.sinks.mongo.guarded_writes import Stamp, guard_field
from tpc.sinks.mongo.markers import NO_EPOCH, EpochMarker, Markers
from tpc.sinks.mongo.operations import names_of
from tpc.sinks.mongo.outbox import Outbox, beginning_with
from tpc.sinks.mongo.progress import Progress, Step
from tpc.sinks.mongo.transactions import RefusedError, run_transaction

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

MARKER_ATTEMPTS = 5
KEYS_ASKED = 1_000
"""How many targets are read with one request."""

Outcomes = dict[Handle, Outcome]
Branches = Sequence[Committable]


@dataclass(frozen=True)
class EpochCommit:
    """Commits epochs of one sink. `is_transactional` says whether a number of operations fits into one transaction."""

    client: Client
    target: DocumentCollection
    outbox: Outbox
    markers: Markers
    is_append: bool
    is_transactional: Callable[[int], bool]
    timeout_s: float

    def commit(self, branches: Branches) -> Outcomes:
        """The outcome of every branch; all must be of one epoch."""
        from pymongo.errors import PyMongoError

        outcomes: Outcomes = {}
        try:
            marker = self._marker_of(branches[0].handle)
            settled = [branch for branch in branches if marker is not None and marker.settles(branch.handle)]
            if settled and marker is not None:
                outcomes.update(_all(settled, Verdict.ALREADY, f"the marker is at epoch {marker.epoch}"))
                self.outbox.delete(settled)
            unmarked = [branch for branch in branches if branch not in settled]
            rest = []
            for branch in unmarked:
                if what := _other_history(marker, branch):
                    outcomes[branch.handle] = Outcome(Verdict.UNKNOWN, what, contradiction=True)
                else:
                    rest.append(branch)
            if rest:
                outcomes.update(self._commit_unmarked(rest))
        except PyMongoError as error:
            return {**_all(branches, Verdict.UNKNOWN, in_words(error)), **outcomes}
        except TpcError as error:
            return {**_all(branches, Verdict.UNKNOWN, error.what), **outcomes}
        return outcomes

    def give_up(self, branches: Branches) -> list[GivenUp]:
        """End branches of one epoch that are not committed: block them in the marker, then remove their outbox.

        After that no process can begin them or mark them as committed. A branch that a guarded commit has begun may be
        visible in part, now or when that commit goes on. The outbox is the evidence for the answers, so the marker
        stores the answers before the outbox is removed. Raises PyMongo's errors.
        """
        marker = self.markers.give_up(branch.handle for branch in branches)
        for _ in range(MARKER_ATTEMPTS):
            left = [branch for branch in branches if str(branch.handle) not in marker.ended]
            if not left:
                self.outbox.delete(branches)
                return [marker.ended[str(branch.handle)] for branch in branches]
            marker = self.markers.end({branch.handle: self._end(branch, marker) for branch in left})
        raise TransientError(f"the marker changed {MARKER_ATTEMPTS} times while the outcomes were stored")

    def _end(self, branch: Committable, marker: EpochMarker) -> GivenUp:
        if marker.settles(branch.handle):
            return GivenUp.COMMITTED
        # The target is checked too: a lost or restored marker does not list what was begun.
        may_be = str(branch.handle) in marker.begun or _other_history(marker, branch) is not None
        partly = may_be or self._is_partly_applied(branch) or self._has_left_guards(branch)
        return GivenUp.NOT_KNOWN if partly else GivenUp.UNDONE

    def _commit_unmarked(self, branches: Branches) -> Outcomes:
        transactional = self.is_transactional(sum(branch.rows for branch in branches))
        states = {branch.handle: self.outbox.state(branch) for branch in branches}
        broken = [branch for branch in branches if states[branch.handle] is not None]
        outcomes = {branch.handle: self._judged(branch, str(states[branch.handle])) for branch in broken}
        sound = [branch for branch in branches if branch not in broken]
        if broken and transactional:
            # The epoch is applied as a whole or not at all, so the outcome of the broken branch holds for the others.
            worst = next(iter(outcomes.values()))
            shared_fate = f"in one transaction with another branch: {worst.evidence}"
            return {**_all(sound, worst.verdict, shared_fate), **outcomes}
        if sound:
            outcomes.update((self._transactionally if transactional else self._guarded)(sound))
        return outcomes

    def _judged(self, branch: Committable, state: str) -> Outcome:
        """The outcome for a branch whose outbox is 'missing' or 'damaged'. LOST needs more than a missing outbox."""
        if state == "damaged":
            return Outcome(Verdict.REFUSED, f"the outbox documents of {branch.resource} are not those prepared")
        # A commit sets the marker before it empties the outbox, so the marker must be read after the outbox.
        marker = self._marker_of(branch.handle)
        if marker is not None and marker.settles(branch.handle):
            return Outcome(Verdict.ALREADY, f"the marker is at epoch {marker.epoch}")
        if what := _other_history(marker, branch):
            return Outcome(Verdict.UNKNOWN, what, contradiction=True)
        newest, expected = NO_EPOCH if marker is None else marker.epoch, branch.data.get("after")
        # Another branch of this epoch may be committed already: then the marker is at this epoch.
        if newest not in (expected, branch.handle.epoch):
            what = f"outbox documents are gone and the marker is at epoch {newest}, not at {expected} as at prepare"
            return Outcome(Verdict.UNKNOWN, f"{what}: was a backup restored?", contradiction=True)
        # What was begun may have been applied and removed since: then neither the target nor a guard shows it.
        is_begun = marker is not None and str(branch.handle) in marker.begun
        if is_begun or (self.is_append and self._is_partly_applied(branch)):
            return Outcome(
                Verdict.REFUSED, "outbox documents are gone after a part of the branch was or may have been applied"
            )
        return Outcome(Verdict.LOST, f"outbox documents are gone, the marker is still at epoch {newest}")

    def _is_partly_applied(self, branch: Committable) -> bool:
        """Whether rows of an append are in the target: written again, they would be there twice."""
        ids = {"$regex": beginning_with(names_of(branch.resource, run_of(branch)))}
        return self.target.find_one({"_id": ids}, {"_id": 1}) is not None

    def _has_left_guards(self, branch: Committable) -> bool:
        """Whether a guarded commit has applied some of the operations that are still in the outbox."""
        guard = guard_field(branch.handle, run_of(branch))
        for operations in self.outbox.operations_left(branch):
            for start in range(0, len(operations), KEYS_ASKED):
                asked = operations[start : start + KEYS_ASKED]
                merged = {
                    "_id": {"$in": [o["key"] for o in asked if "key" in o]},
                    f"{guard}.epoch": branch.handle.epoch,
                }
                names = [o["id"] for o in asked if "id" in o]
                ids = [o["insert"]["_id"] for o in asked if "id" in o]
                inserted = {"_id": {"$in": ids}, f"{guard}.operation": {"$in": names}}
                if self.target.find_one({"$or": [merged, inserted]}, {"_id": 1}) is not None:
                    return True
        return False

    def _guarded(self, branches: Branches) -> Outcomes:
        left, before = self._begin(branches)
        outcomes = _all([branch for branch in branches if branch not in left], Verdict.ALREADY, "marked meanwhile")
        for branch in left:
            stamp = Stamp.of(branch.handle, run_of(branch), guarded=True)
            refusal = apply_guarded(
                self.target, self.outbox.operations(branch), stamp, before.get(branch.handle), self._recorder(branch)
            )
            if refusal is not None:
                outcomes[branch.handle] = Outcome(Verdict.REFUSED, refusal.reason)
        applied = [branch for branch in left if branch.handle not in outcomes]
        if applied:
            self._mark(applied)
            self.outbox.delete(applied)
            outcomes.update(_all(applied, Verdict.COMMITTED, "applied guarded"))
        return outcomes

    def _recorder(self, branch: Committable) -> Callable[[Step], Progress | None]:
        """A function that records the steps of a branch in the marker; it raises if an operator gave the branch up."""

        def record(step: Step) -> Progress | None:
            after = self.markers.record(branch.handle, step)
            if after is not None:
                return after.progress.get(str(branch.handle), UNTOUCHED)
            self._refuse_given_up([branch])
            marker = self._marker_of(branch.handle)
            if marker is None or not marker.settles(branch.handle):
                raise TpcError("the marker changed while the branch was being applied")
            return None

        return record

    def _begin(self, branches: Branches) -> tuple[Branches, dict[Handle, Progress]]:
        """The branches to apply, and the progress of those that were begun before.

        From now on a process that gives one of them up knows that rows may appear. The marker is read again, since an
        epoch that was given up is removed from it when a later one is marked.
        """
        for _ in range(MARKER_ATTEMPTS):
            seen = self._marker_of(branches[0].handle)
            left = [branch for branch in branches if seen is None or not seen.settles(branch.handle)]
            if not left:
                return left, {}
            before = self.markers.begin(seen, [branch.handle for branch in left])
            if before is not None:
                begun = [branch.handle for branch in left if str(branch.handle) in before.begun]
                return left, {handle: before.progress.get(str(handle), UNTOUCHED) for handle in begun}
            self._refuse_given_up(left)
        raise TpcError(f"the marker changed {MARKER_ATTEMPTS} times while branches were being begun")

    def _mark(self, branches: Branches) -> None:
        for _ in range(MARKER_ATTEMPTS):
            seen = self._marker_of(branches[0].handle)
            left = [branch for branch in branches if seen is None or not seen.settles(branch.handle)]
            if not left or self.markers.advance(seen, left):
                return
            self._refuse_given_up(left)
        raise TpcError(f"the marker changed {MARKER_ATTEMPTS} times while it was being set")

    def _refuse_given_up(self, branches: Branches) -> None:
        marker = self._marker_of(branches[0].handle)
        if marker is not None and any(str(branch.handle) in marker.given_up for branch in branches):
            raise TpcError("an operator has given up the branch")

    def _transactionally(self, branches: Branches) -> Outcomes:
        def body(session: ClientSession) -> bool:
            seen = self._marker_of(branches[0].handle, session)
            if seen is not None and all(seen.settles(branch.handle) for branch in branches):
                return False
            # Set first, so that a second committer of this epoch conflicts here, before it writes anything.
            if not self.markers.advance(seen, branches, session):
                self._refuse_given_up(branches)
                raise TpcError("the marker changed inside the transaction")
            # A process that began the epoch in guarded mode may be stopped before a write, which checks only guards.
            is_begun = seen is not None and any(str(branch.handle) in seen.begun for branch in branches)
            for branch in branches:
                stamp = Stamp.of(branch.handle, run_of(branch), guarded=is_begun)
                done = UNTOUCHED if seen is None else seen.progress.get(str(branch.handle), UNTOUCHED)
                apply_in_transaction(self.target, self.outbox.operations(branch), stamp, session, done)
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


def _other_history(marker: EpochMarker | None, branch: Committable) -> str | None:
    """Why the marker does not follow the one at prepare, as text: then a missing entry in it proves nothing.

    Branches of older versions have no base, and their marker may not exist before the first epoch.
    """
    newest, expected = NO_EPOCH if marker is None else marker.epoch, branch.data.get("after", NO_EPOCH)
    base = branch.data.get("base")
    if newest < expected:
        return f"the marker is at epoch {newest}, and was at {expected} at prepare: was a backup restored?"
    if base is not None and (marker is None or marker.base != base):
        return "the marker is not the document that was there at prepare: markers were removed, or a backup restored"
    return None


def run_of(branch: Committable) -> str:
    """The run that a branch was prepared in; '' before runs had numbers."""
    return str(branch.data.get("run", ""))


def _all(branches: Branches, verdict: Verdict, evidence: str) -> Outcomes:
    return {branch.handle: Outcome(verdict, evidence) for branch in branches}
