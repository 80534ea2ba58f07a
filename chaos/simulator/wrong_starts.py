"""Starts that must be refused: without a sink, with a sink elsewhere or put back, from a copy of the checkpoint,
from where the pipeline was moved away.

Somebody tries them while nobody leads. Each must end with an error before anything is committed, aborted or owned; all
but the last before any record as well. Other faults stand still meanwhile, so that what changes is the start's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tpc.ancestors import Ancestor
from tpc.chaos.simulator.copied_log import CopiedLog
from tpc.chaos.simulator.driver import COLUMNS, Driver, Place
from tpc.chaos.simulator.gone_back import commit_lost, moved
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.log_disk import SimulatedLog
from tpc.chaos.simulator.moving import LeftPlace
from tpc.chaos.simulator.processes import InlineExecutor, Process, SimulatedClock
from tpc.chaos.simulator.sinks import SimulatedCommitter, SimulatedSink
from tpc.chaos.simulator.spark import CHECKPOINT, SimulatedSparkLog, SparkDisk
from tpc.chaos.simulator.world import PIPELINE, Invariant
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.savepoints.restoring import first_body_of_fork
from tpc.coordinator.spark.reconcile import reconcile
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import HistoryMismatchError, TpcError
from tpc.fold import fold
from tpc.handles import PipelineId
from tpc.history import History
from tpc.manifest import Manifest
from tpc.records import Record, RecordKind
from tpc.schemas import Columns
from tpc.sink import Committer


class _Elsewhere(SimulatedSink):
    """A sink whose settings name another system now."""

    def committer(self, pipeline: PipelineId) -> Committer:
        return _ElsewhereCommitter(self)


class _ElsewhereCommitter(SimulatedCommitter):
    def identity(self) -> str:
        return "simulated:elsewhere"


class WrongStarts:
    """The body of a process that tries what must be refused."""

    def __init__(self, place: Place, ledger: Ledger, process: Process, left: Sequence[LeftPlace] = ()) -> None:
        self.place = place
        self.left = left
        self.ledger = ledger
        self.process = process
        self.world = place.world

    def run(self) -> None:
        """Try all of them; the last one leaves a term of the pipeline itself behind."""
        log = SimulatedLog(self.place.log)
        with self._nothing_else_happens():
            history = Journal(log).open()
            for name in list(history.sinks)[:1]:
                self._refused(f"a start without {name}", self._sinks(without=name), log)
            for name in self._waited_for(history.pending):
                self._refused(f"a start with {name} elsewhere", self._sinks(elsewhere=name), log)
            for name in self._expected_to_show(history):
                for epochs, what in ((-1, "put back"), (5, "ahead")):
                    if epochs < 0 and history.damaged:
                        continue  # put back by the epoch of the damaged record, it fits the log: nobody can know more
                    with moved(self.place.systems[name], epochs):
                        self._refused(f"a start with {name} {what}", self._sinks(), log)
            for name in self._list_only_copies(history):
                with commit_lost(self.place.systems[name], history):
                    self._refused(f"a start with a lost commit in {name}", self._sinks(), log)
            for name in sorted(history.schemas)[:1]:
                self._refuses_other_columns(name, log)
            self._refuses_a_log_that_was_cut_back(log)
            copy = CopiedLog(self.place.log.content)
            Driver(self.place, self.process).sweep()
            self._refused("a start from a copy of the checkpoint", self._sinks(), copy)
            for left in self.left:
                self._refuses_what_was_moved(left)

    def _refuses_what_was_moved(self, left: LeftPlace) -> None:
        """The old place, a second copy of the savepoint, and a fork of it into the same targets."""
        columns = dict.fromkeys(self.place.systems, COLUMNS)
        sinks, old = self._sinks(), SimulatedLog(left.place.log)
        self._refused("a start at the place that was left", sinks, old, columns, spark=left.place.spark)
        second = CopiedLog(left.records)
        self._refused("a start from a second copy of the savepoint", sinks, second, columns, spark=left.place.spark)
        fork = PipelineId(PIPELINE.name, PIPELINE.incarnation + 1)
        ancestor = Ancestor(PIPELINE, left.history.last_complete or 0, dict(left.history.sinks))
        forked = CopiedLog({})
        first = Record(1, RecordKind.GENERATION, "fork", first_body_of_fork(fork, ancestor, left.history))
        forked.put(1, first.encode(), None)
        spark = left.place.spark.copied()
        spark.query_id = first.body["query_id"]
        self._refused("a fork into the same targets", sinks, forked, columns, spark=spark, pipeline=fork)

    def _waited_for(self, pending: Manifest | None) -> list[str]:
        """Sinks that the pending intent binds."""
        if pending is None:
            return []
        epoch, resolved = pending.epoch, self.ledger.resolved
        return [name for name in self.place.systems if pending.waits_for(name) and (epoch, name) not in resolved]

    def _refuses_a_log_that_was_cut_back(self, log: Log) -> None:
        """Spark has committed a batch that a log without its last decision knows nothing of."""
        records = Journal(log).records()
        intents = [number for number, record in enumerate(records) if record.kind is RecordKind.INTENT]
        history = fold(records[: intents[-1]] if intents else [])
        committed = self.place.spark.newest("commits")
        if history.last_intent is None or committed is None or committed <= history.last_intent:
            return
        before = dict(self.place.spark.files)
        try:
            reconcile(history, SimulatedSparkLog(self.place.spark), self._must_not_run)
        except HistoryMismatchError as error:
            self.world.tell(f"a log that was cut back is refused: {error.what}")
        else:
            raise self.world.violated(Invariant.BELONGING, "a log that was cut back is taken for the whole one")
        if self.place.spark.files != before:
            raise self.world.violated(Invariant.BELONGING, "a log that was cut back is refused too late")

    def _must_not_run(self) -> None:
        raise self.world.violated(Invariant.BELONGING, "a batch is run with a log that was cut back")

    def _expected_to_show(self, history: History) -> list[str]:
        """Sinks that must show a complete epoch, and never forget it."""
        pending = history.pending
        resolved = {sink for _, sink in self.ledger.resolved}
        return [
            name
            for name, system in self.place.systems.items()
            if not system.traits.markers_expire
            and name not in resolved
            and (pending is None or not pending.waits_for(name))
            and history.last_epoch_of(name) is not None
        ]

    def _list_only_copies(self, history: History) -> list[str]:
        """Sinks whose prepared branches are not committed, and that show a complete epoch which the log still tells."""
        names = [name for name in self._expected_to_show(history) if self.place.systems[name].traits.lists_only_copies]
        return [] if history.damaged else [name for name in names if history.last_epoch_of(name) in history.manifests]

    def _refuses_other_columns(self, name: str, log: Log) -> None:
        """Unless they are accepted; what is accepted of other sinks is nothing to this one."""
        wanted = {sink: (*COLUMNS, ("more", "string")) if sink == name else COLUMNS for sink in self.place.systems}
        self._refused(f"a start with other columns for {name}", self._sinks(), log, wanted)
        copy = CopiedLog(self.place.log.content)
        journal = Journal(copy)
        if journal.open().damaged:
            return
        for other in sorted(self.place.systems.keys() - {name}):
            journal.append(RecordKind.ACCEPTANCE, {"sink": other, "columns": None})
        self._refused(f"a start with other columns for {name}, accepted of others", self._sinks(), copy, wanted)

    def _sinks(self, *, without: str = "", elsewhere: str = "") -> list[SimulatedSink]:
        made: list[SimulatedSink] = []
        for name, system in self.place.systems.items():
            kind: Callable[..., SimulatedSink] = _Elsewhere if name == elsewhere else SimulatedSink
            if name != without:
                made.append(kind(system, self.process, lambda: None))
        return made

    def _refused(
        self,
        what: str,
        sinks: Sequence[SimulatedSink],
        log: Log,
        schemas: Mapping[str, Columns] | None = None,
        *,
        spark: SparkDisk | None = None,
        pipeline: PipelineId = PIPELINE,
    ) -> None:
        before = self._seen()
        coordinator = Coordinator(
            pipeline,
            sinks,
            log,
            SparkRuntime(CHECKPOINT, SimulatedSparkLog(spark or self.place.spark)),
            self.place.settings,
            clock=SimulatedClock(self.world, self.process),
            journal=Journal(log, lambda: f"{self.world.random.getrandbits(64):016x}"),
            pool=InlineExecutor(),
        )
        try:
            if schemas is None:
                coordinator.finish()
            else:
                coordinator.recover({}, schemas)
        except TpcError as error:
            self.world.tell(f"{what} is refused: {error.what}")
        else:
            raise self.world.violated(Invariant.BELONGING, f"{what} is not refused")
        if self._seen() != before:
            raise self.world.violated(Invariant.BELONGING, f"{what} is refused after it has changed something")

    def _seen(self) -> Any:
        """What nobody may have changed: the log, and what every system holds."""
        systems = [
            (sorted(system.visible), system.owner, None if system.traits.expires_after_s else sorted(system.prepared))
            for system in self.place.systems.values()
        ]
        left = [dict(each.place.log.content) for each in self.left]
        return dict(self.place.log.content), left, systems

    @contextmanager
    def _nothing_else_happens(self) -> Iterator[None]:
        """No faults, and nothing that is under way arrives."""
        world = self.world
        calm, world.plan.calm = world.plan.calm, True
        under_way, world.messages = world.messages, []
        try:
            yield
        finally:
            world.plan.calm = calm
            world.messages = [*under_way, *world.messages]
