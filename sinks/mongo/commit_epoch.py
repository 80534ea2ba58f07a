"""Commits the branches of one decided epoch: the order of the steps, and what every finding means.

Look at the marker, check the outbox of every branch, apply, set the marker, empty the outbox. In a transaction all
branches of an epoch share one fate; guarded, each has its own, and the marker lists those that are committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import TpcError
from tpc.handles import DELIMITER, Handle
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.mongo.apply import RefusedError, apply_guarded, apply_in_transaction, run_transaction
from tpc.sinks.mongo.connection import in_words
from tpc.sinks.mongo.operations import Stamp
from tpc.sinks.mongo.outbox import beginning_with

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

    from tpc.sinks.mongo.committer import MongoCommitter

NO_EPOCH = -1
"""Stands for the epoch of a marker that is not there."""
MARKER_ATTEMPTS = 5

Outcomes = dict[Handle, Outcome]
Branches = Sequence[Committable]


def commit_epoch(committer: MongoCommitter, branches: Branches) -> Outcomes:
    """The outcome of every branch; all of them of one epoch."""
    from pymongo.errors import PyMongoError

    outcomes: Outcomes = {}
    try:
        marker = committer.markers.read(branches[0].handle.pipeline, committer.sink.name)
        settled = [branch for branch in branches if marker is not None and marker.settles(branch.handle)]
        if settled and marker is not None:
            outcomes.update(_all(settled, Verdict.ALREADY, f"the marker is at epoch {marker.epoch}"))
            committer.outbox.delete(settled)
        rest = [branch for branch in branches if branch not in settled]
        if rest:
            outcomes.update(_commit_unmarked(committer, rest))
    except PyMongoError as error:
        return {**_all(branches, Verdict.UNKNOWN, in_words(error)), **outcomes}
    except TpcError as error:
        return {**_all(branches, Verdict.UNKNOWN, error.what), **outcomes}
    return outcomes


def _commit_unmarked(committer: MongoCommitter, branches: Branches) -> Outcomes:
    transactional = committer.transactional(sum(branch.rows for branch in branches))
    states = {branch.handle: committer.outbox.state(branch) for branch in branches}
    broken = [branch for branch in branches if states[branch.handle] is not None]
    outcomes = {branch.handle: _judged(committer, branch, str(states[branch.handle])) for branch in broken}
    sound = [branch for branch in branches if branch not in broken]
    if broken and transactional:
        # All of the epoch or nothing: what happens to the broken branch happens to the others.
        worst = next(iter(outcomes.values()))
        shared_fate = f"in one transaction with another branch: {worst.evidence}"
        return {**_all(sound, worst.verdict, shared_fate), **outcomes}
    if sound:
        outcomes.update((_transactionally if transactional else _guarded)(committer, sound))
    return outcomes


def _judged(committer: MongoCommitter, branch: Committable, state: str) -> Outcome:
    """What it means that a branch's outbox is 'missing' or 'damaged'. Lost needs more than absence."""
    if state == "damaged":
        return Outcome(Verdict.REFUSED, f"the outbox documents of {branch.resource} are not those prepared")
    # Whoever applied it set the marker before the outbox was emptied: only a look after the outbox tells.
    marker = committer.markers.read(branch.handle.pipeline, committer.sink.name)
    if marker is not None and marker.settles(branch.handle):
        return Outcome(Verdict.ALREADY, f"the marker is at epoch {marker.epoch}")
    newest, expected = NO_EPOCH if marker is None else marker.epoch, branch.data.get("after")
    if newest != expected:
        what = f"outbox documents are gone and the marker is at epoch {newest}, not at {expected} as at prepare"
        return Outcome(Verdict.UNKNOWN, f"{what}: was a backup restored?", contradiction=True)
    if committer.sink.merge is None and _is_partly_applied(committer, branch):
        return Outcome(Verdict.REFUSED, "outbox documents are gone after a part of the branch was applied")
    return Outcome(Verdict.LOST, f"outbox documents are gone, the marker is still at epoch {newest}")


def _is_partly_applied(committer: MongoCommitter, branch: Committable) -> bool:
    """Whether rows of an append are in the target: written again they would be there twice."""
    ids = {"$regex": beginning_with(branch.resource + DELIMITER)}
    return committer.target.find_one({"_id": ids}, {"_id": 1}) is not None


def _guarded(committer: MongoCommitter, branches: Branches) -> Outcomes:
    outcomes: Outcomes = {}
    for branch in branches:
        stamp = Stamp.of(branch.handle, guarded=True)
        refusal = apply_guarded(committer.target, committer.outbox.operations(branch), stamp)
        if refusal is not None:
            outcomes[branch.handle] = Outcome(Verdict.REFUSED, refusal.reason)
    applied = [branch for branch in branches if branch.handle not in outcomes]
    if applied:
        _mark(committer, applied)
        committer.outbox.delete(applied)
        outcomes.update(_all(applied, Verdict.COMMITTED, "applied guarded"))
    return outcomes


def _mark(committer: MongoCommitter, branches: Branches) -> None:
    for _ in range(MARKER_ATTEMPTS):
        seen = committer.markers.read(branches[0].handle.pipeline, committer.sink.name)
        left = [branch for branch in branches if seen is None or not seen.settles(branch.handle)]
        if not left or committer.markers.advance(seen, left):
            return
    raise TpcError(f"the marker changed {MARKER_ATTEMPTS} times while it was being set")


def _transactionally(committer: MongoCommitter, branches: Branches) -> Outcomes:
    def body(session: ClientSession) -> bool:
        seen = committer.markers.read(branches[0].handle.pipeline, committer.sink.name, session)
        if seen is not None and all(seen.settles(branch.handle) for branch in branches):
            return False
        # Set first: a second committer of this epoch conflicts here, before it has written anything.
        if not committer.markers.advance(seen, branches, session):
            raise TpcError("the marker changed inside the transaction")
        for branch in branches:
            stamp = Stamp.of(branch.handle, guarded=False)
            apply_in_transaction(committer.target, committer.outbox.operations(branch), stamp, session)
        committer.outbox.delete(branches, session)
        return True

    try:
        applied = run_transaction(committer.client, body, committer.sink.timeout_s)
    except RefusedError as error:
        return _all(branches, Verdict.REFUSED, error.refusal.reason)
    return _all(branches, Verdict.COMMITTED if applied else Verdict.ALREADY, "in one transaction")


def _all(branches: Branches, verdict: Verdict, evidence: str) -> Outcomes:
    return {branch.handle: Outcome(verdict, evidence) for branch in branches}
