"""The operator moves the simulated pipeline: its log ends, and a copy of log and checkpoint goes on at another place.

What a savepoint and its restore do with files is in `coordinator.operations.savepoints` and is tested on a disk;
here it is one act, and what is tried is the protocol around it: processes that are left behind, late messages, starts
at the old place, second copies of the savepoint, and forks into the same targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpc.chaos.simulator.driver import Place
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.log_disk import LogDisk, SimulatedLog
from tpc.chaos.simulator.world import Invariant, World
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import FencedError, LogGoneError
from tpc.history import History
from tpc.records import RecordKind


@dataclass(frozen=True)
class LeftPlace:
    """A place that the pipeline has left, and the history with which it did."""

    place: Place
    history: History
    records: dict[int, bytes]
    """The log in the savepoint: without the record that ends the old one."""


class _EndedLedger(Ledger):
    """Judges the log of a place that was left: nothing may land behind the record that ends it."""

    def __init__(self, world: World, last_slot: int) -> None:
        super().__init__(world)
        self.last_slot = last_slot

    def on_landed(self, slot: int, data: bytes) -> None:
        """See `Ledger.on_landed`."""
        if slot > self.last_slot:
            raise self.world.violated(Invariant.FENCED_IS_HARMLESS, f"slot {slot} lands in a log that was moved away")


def move(place: Place, ledger: Ledger) -> LeftPlace | None:
    """End the log at `place`, if every epoch in it is complete; the new place is in `place` then, the old one returned.

    None while an epoch is pending, when a record is damaged or away, and when somebody else's record comes first.
    """
    world = place.world
    calm, world.plan.calm = world.plan.calm, True
    try:
        return _move(place, ledger)
    finally:
        world.plan.calm = calm


def _move(place: Place, ledger: Ledger) -> LeftPlace | None:
    world, log = place.world, place.log
    journal = Journal(SimulatedLog(log), lambda: f"{world.random.getrandbits(64):016x}")
    if log.losses.away or not log.content:
        return None
    history = journal.read()
    if history.damaged or history.pending is not None or history.last_complete is None:
        return None
    records = dict(log.content)
    world.call("operator.copied")  # what is under way may arrive here
    try:
        journal.append(RecordKind.MOVED, {"to": "the savepoint", "savepoint": "simulated"})
    except (FencedError, LogGoneError) as error:
        world.tell(f"operator: the pipeline is not moved: {error.what}")
        return None
    ended = max(log.content)
    ledger.durable_slots.discard(ended)  # the record of that number at the new place is another one
    world.tell(f"operator: moves the pipeline, its old log ends with slot {ended}")
    left = LeftPlace(replace(place), history, records)
    new = LogDisk(world, ledger)
    new.content.update(records)
    new.originals.update(log.originals)
    new.losses.ever, new.was_changed = log.losses.ever, log.was_changed
    log.ledger = log.losses.ledger = _EndedLedger(world, ended)
    place.log, place.spark = new, place.spark.copied()
    return left
