"""The operator of the simulated pipeline: what a person does when a process has ended with an error."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tpc.chaos.simulator.driver import Place
from tpc.chaos.simulator.evidence import Evidence
from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.log_disk import SimulatedLog
from tpc.chaos.simulator.moving import LeftPlace, move
from tpc.chaos.simulator.spark_query import ConcurrentQueriesError, PastBatchesError
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.operations import actions
from tpc.errors import (
    ConfigurationError,
    CorruptionError,
    DataError,
    DecisionUnknownError,
    DeterminismError,
    FencedError,
    HistoryMismatchError,
    LogGoneError,
    ParkedError,
    RepairNeededError,
    TpcError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.history import Action, Resolution

_RESTART_IS_ENOUGH = (TransientError, DataError, RepairNeededError, DecisionUnknownError)


class Operator:
    """Acts between two starts."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.world = place.world
        self.ledger = ledger
        self.left: list[LeftPlace] = []
        """The places that the pipeline has left."""
        self.voids_damaged_end = False
        """Whether the next process is `tpc recover --void-damaged-end`."""

    def move(self) -> None:
        """As `tpc savepoint` and `tpc restore --move` do, unless an epoch is pending."""
        if (left := move(self.place, self.ledger)) is not None:
            self.left.append(left)

    def deals_with(self, error: Exception, evidence: Evidence, *, overlapped: bool) -> bool:
        """Do what `error` asks for; False when nothing that has happened explains the error.

        `evidence`: what the process that ended had met; `overlapped`: another one has lived beside it.
        """
        if isinstance(error, ParkedError | UnknownOutcomeError):
            self._decide(error)
            return True
        if isinstance(error, DeterminismError):
            return self._accept_state(error)
        if isinstance(error, ConfigurationError):
            # Another process has voided the end meanwhile; or one that was started before a move looks at the old log.
            return "nothing to void" in error.what or (bool(self.left) and "was moved to" in error.what)
        losses = self.place.log.losses
        if isinstance(error, CorruptionError) or (isinstance(error, LogGoneError) and not losses.may_be_forked):
            losses.put_back()
        if isinstance(error, CorruptionError):
            explained = evidence.explains_an_alarm(self.place.log.end)
            if explained:
                self._mend()
            return (
                explained
                or self._voids(error)
                or self._puts_books_back(error.sink)
                or self._removes_late_plans(error, evidence)
            )
        if isinstance(error, PastBatchesError):
            # A late plan may arrive when a start has moved the undecided ones aside: Spark goes on from it, past the
            # batches that the start lets it run again, and ends. The next start finds the plan and moves it aside.
            return evidence.has_seen_arrive(error.batch)
        return self._a_restart_is_enough(error, overlapped=overlapped)

    def _a_restart_is_enough(self, error: Exception, *, overlapped: bool) -> bool:
        if isinstance(error, LogGoneError):
            return self.place.log.losses.ever or self.place.log.was_changed
        if isinstance(error, FencedError) and self.place.log.late_terms:
            return True  # nobody can tell the term of a process that has died since from that of one that leads
        if isinstance(error, ConcurrentQueriesError) and self.place.spark.came_late:
            return True
        if isinstance(error, ConcurrentQueriesError | FencedError):
            return overlapped
        return isinstance(error, _RESTART_IS_ENOUGH)

    def _voids(self, error: CorruptionError) -> bool:
        """A torn record has decided nothing, which a sink that shows nothing cannot prove: only an operator knows."""
        self.voids_damaged_end = "nothing in the sink proves" in error.what
        return self.voids_damaged_end

    def _puts_books_back(self, sink: str | None) -> bool:
        system = self.place.systems.get(sink or "")
        return system is not None and system.put_books_back()

    def _removes_late_plans(self, error: CorruptionError, evidence: Evidence) -> bool:
        """Two decided plans, one after the other, are as two forgotten drivers have left them: these files go.

        To a start they look like a checkpoint of another history, and it stops; who knows of the drivers removes them.
        The alarm must name just these epochs, and its process must have seen both plans.
        """
        if not isinstance(error, HistoryMismatchError) or error.epoch is None:
            return False
        epochs = error.epoch - 1, error.epoch
        if not all(self._is_overwritten(epoch, evidence.late_plans.get(epoch)) for epoch in epochs):
            return False
        for epoch in epochs:
            self.place.spark.remove_late_plan(epoch)
        return True

    def _is_overwritten(self, epoch: int, late: str | None) -> bool:
        decision = self.ledger.decisions.get(epoch)
        return late is not None and decision is not None and late != decision.manifest.epoch_input.offsets_file

    def _mend(self) -> None:
        """The disk had lied, a fenced process has written into Spark's log, or a sink went back: one is put right."""
        log, spark = self.place.log, self.place.spark
        if spark.trampled:
            self.world.tell("operator: puts back Spark's log, which a fenced process has changed")
            spark.put_back()
        elif self.ledger.went_back:
            for name in list(self.ledger.went_back):
                self.world.tell(f"operator: brings {name} back to where it was")
                self.place.systems[name].come_back()
        elif any(slot in self.ledger.bodies for slot in log.originals):
            self.world.tell("operator: restores the damaged records from the mirror")
            log.restore()
        else:
            self.world.tell("operator: what it has met is put back since, so a restart is enough")

    def _decide(self, error: TpcError) -> None:
        """An epoch is parked or cannot be told: remove the cause, or record a decision."""
        system = self.place.systems.get(error.sink or "")
        if system is None or error.epoch is None:
            return  # it only gave up waiting
        choice = self.world.random.random()
        if isinstance(error, ParkedError) and choice < 0.3 and not self.world.plan.calm:
            return  # a restart tries once more
        if isinstance(error, ParkedError) and choice < 0.6:
            self.world.tell(f"operator: removes the cause of the refusal in {system.name}")
            system.refused_epochs.clear()
        elif isinstance(error, ParkedError) or system.contradicted:
            action = self.world.random.choice((Action.ACCEPT_LOSS, Action.MARK_COMMITTED))
            self.resolve(Resolution(error.epoch, system.name, action, "simulated", "operator"))

    def _accept_state(self, error: DeterminismError) -> bool:
        if not self.world.plan.fired[Fault.NOT_DETERMINISTIC]:
            return False
        if self.place.spark.stateful and error.epoch is not None and self.world.random.random() < 0.5:
            sink = self.world.random.choice(("", error.sink or ""))  # as one types who reads the sink in the error
            self.resolve(Resolution(error.epoch, sink, Action.ACCEPT_STATE, "simulated", "operator"))
        return True

    def resolve(self, resolution: Resolution) -> None:
        """As `tpc resolve` does, faults of the log included. Raises `Killed` when the power fails."""
        self.world.tell(f"operator: {resolution.action.value} of epoch {resolution.epoch} in {resolution.sink or '*'}")
        try:
            actions.resolve(SimulatedLog(self.place.log), LocalCheckpoint(Path(_lock_directory().name)), resolution)
        except TpcError as error:
            self.world.tell(f"operator: {type(error).__name__}: {error}")


@cache
def _lock_directory() -> tempfile.TemporaryDirectory[str]:
    """`tpc resolve` takes a checkpoint's lock, which is a real file. Removed when the interpreter ends."""
    return tempfile.TemporaryDirectory(prefix="tpc-simulated-")
