"""One batch's pass as the driver sees it: runs the Spark job, collects the reports, makes the manifest.

What a task does stands in `task.py`; when a pass runs, in the machine. Branches that the driver writes itself
(gathered merges, the source offsets) are written here, after the job.
"""

from __future__ import annotations

import base64
import pickle
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc import failpoints
from tpc.coordinator.passes.gather import combine
from tpc.coordinator.passes.plan import PassPlan
from tpc.coordinator.passes.task import REPORT_SCHEMA, Mode, PassTask, SinkTask
from tpc.coordinator.spark.query_log import kafka_offsets
from tpc.effects import ReplayEpoch
from tpc.errors import DeterminismError, TpcError, TransientError
from tpc.events import Replayed
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.json import JSONObject, parse
from tpc.manifest import Barrier, Branch, Manifest, SinkPart
from tpc.sink import Committable, OffsetsCommitter, Sink

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from tpc.coordinator.engine import Engine


@dataclass(frozen=True)
class Report:
    """What one task reported; `sinks` per sink name as JSON, `gathered` as Arrow IPC."""

    body: Mapping[str, Any]
    gathered: Mapping[str, bytes]


class SparkPass:
    """The runner of one batch (see `engine.EpochRunner`)."""

    def __init__(
        self,
        frame: DataFrame,
        plan: PassPlan,
        barrier: Barrier,
        engine: Engine,
        *,
        offsets_sink: str | None,
        late_rows: Callable[[], int | None],
        unrouted_is_error: bool,
    ) -> None:
        """`offsets_sink` names the sink of the source offsets, if there is one.

        `late_rows()` says, after the job, how many rows the watermark dropped in it; None: not known.
        """
        self.frame = frame
        self.plan = plan
        self.barrier = barrier
        self.engine = engine
        self.participants = engine.participants
        self.pipeline: PipelineId = engine.participants.pipeline
        self.offsets_sink = offsets_sink
        self.late_rows = late_rows
        self.unrouted_is_error = unrouted_is_error
        self.repeated_tasks = False
        self.sink_seconds: dict[str, dict[str, float]] = {}

    # The two ways to run ---------------------------------------------------------------------------------------

    def write(self, epoch: int, generation: int) -> Manifest:
        """Write and prepare every sink."""
        hints = self.participants.hints()
        tasks = tuple(
            SinkTask(sink, self._routes(name), self._mode(sink), hints[name])
            for name, sink in self._fed_sinks().items()
        )
        reports = self._run(epoch, generation, tasks)
        self.engine.clock_phase("pass")
        driver = self._driver_branches(epoch, generation, reports, tasks, self.participants.sinks)
        self.engine.clock_phase("gather")
        return self._manifest(epoch, generation, reports, driver)

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """Run the decided batch again; write only what is lost."""
        lost = _lost_digests(effect)
        self._refuse_ambiguous(effect, lost)
        hints = self.participants.hints()
        tasks = []
        for name, sink in self._fed_sinks().items():
            digests = lost.get(name)
            mode = Mode.DIGEST if digests is None else self._mode(sink)
            tasks.append(SinkTask(sink, self._routes(name), mode, hints[name], digests))
        reports = self._run(effect.epoch, effect.generation, tuple(tasks))
        self.engine.clock_phase("pass")
        driver = self._driver_branches(effect.epoch, effect.generation, reports, tasks, lost.keys())
        self.engine.clock_phase("gather")
        parts = self._parts(reports, driver)
        replayed = {name: part.digest for name, part in parts.items()}
        if effect.manifest is not None:
            replayed |= {n: p.digest for n, p in effect.manifest.sinks.items() if n not in self._fed_sinks()}
        replacements = _replacements(effect, parts)
        if len(replacements) < sum(len(part.branches) for part in parts.values()):
            self.repeated_tasks = True  # partitions of equal rows: the branches that are not needed are losers
        return Replayed(replayed, replacements)

    def _refuse_ambiguous(self, effect: ReplayEpoch, lost: Mapping[str, frozenset[str]]) -> None:
        """Raise when the rows of a lost branch cannot be told from those of one that is there."""
        if effect.manifest is None:
            return
        inexact = {route.sink for route in self.plan.routes if not route.exact}
        for sink, branch in effect.manifest.branches():
            there = str(branch.committable.handle) not in effect.lost
            if there and sink in inexact and branch.digest in lost.get(sink, ()):
                raise DeterminismError(
                    "a branch is lost, and its rows differ from those of another branch only in floats, which digests "
                    "leave out: a replay cannot tell which of them to write again",
                    pipeline=str(self.pipeline),
                    epoch=effect.epoch,
                    sink=sink,
                    remedy="where floats come out the same bit by bit, to(..., exact_floats=True) prevents this; for "
                    "this epoch write the missing rows by hand, then "
                    "`tpc resolve CHECKPOINT --epoch N --sink NAME --mark-committed --reason ...`.",
                )

    def _fed_sinks(self) -> dict[str, Sink]:
        return {name: sink for name, sink in self.participants.sinks.items() if name != self.offsets_sink}

    def _routes(self, sink: str) -> tuple[Any, ...]:
        return tuple(route for route in self.plan.routes if route.sink == sink)

    def _mode(self, sink: Sink) -> Mode:
        return Mode.GATHER if sink.merge is not None and not self.plan.partitioned else Mode.WRITE

    # The job ---------------------------------------------------------------------------------------------------

    def _run(self, epoch: int, generation: int, tasks: tuple[SinkTask, ...]) -> list[Report]:
        task = PassTask(
            self.pipeline,
            generation,
            epoch,
            tasks,
            self.plan.digests_by_writing,
            self.unrouted_is_error,
            {step: action for step, action in failpoints.installed().items() if step.startswith("pass.")},
        )
        result = self.frame.mapInArrow(task.run, REPORT_SCHEMA)
        partitions = result._jdf.queryExecution().toRdd().getNumPartitions()
        self.engine.clock_phase("plan")
        rows = result.collect()
        reports = _reports([(row["sink"], bytes(row["payload"])) for row in rows])
        self.repeated_tasks = any(report.body["attempt_number"] > 0 for report in reports)
        errors = [pickle.loads(base64.b64decode(r.body["error"])) for r in reports if "error" in r.body]
        if errors:
            self.repeated_tasks = True
            raise _worst(errors)
        found = sorted(report.body["partition"] for report in reports)
        if found != list(range(partitions)):
            raise TransientError(f"{partitions} partitions ran, reports came from {found}", epoch=epoch)
        self.sink_seconds = {task.sink.name: _slowest(task.sink.name, reports) for task in tasks}
        failpoints.hit("epoch.collected", epoch=epoch)
        return reports

    # Branches of the driver's own ------------------------------------------------------------------------------

    def _driver_branches(
        self,
        epoch: int,
        generation: int,
        reports: Sequence[Report],
        tasks: Sequence[SinkTask],
        wanted: Collection[str],
    ) -> dict[str, Committable]:
        """Write and prepare gathered merges and the source offsets of the `wanted` sinks, in parallel."""
        gathered = [task for task in tasks if task.mode is Mode.GATHER]
        work = {task.sink.name: self._gather_job(task, epoch, generation, reports) for task in gathered}
        if self.offsets_sink is not None and self.offsets_sink in wanted:
            work[self.offsets_sink] = self._offsets_job(self.offsets_sink, epoch, generation)
        if not work:
            return {}
        with ThreadPoolExecutor(max_workers=len(work), thread_name_prefix="tpc-driver-branch") as pool:
            futures = {name: pool.submit(self._timed, name, job) for name, job in work.items()}
        return {name: made for name, future in futures.items() if (made := future.result()) is not None}

    def _timed(self, name: str, job: Callable[[], Committable | None]) -> Committable | None:
        started = time.perf_counter()
        try:
            return job()
        finally:
            times = self.sink_seconds.setdefault(name, {"write": 0.0, "flush": 0.0})
            times["prepare"] = round(times.get("prepare", 0.0) + time.perf_counter() - started, 6)

    def _gather_job(self, task: SinkTask, epoch: int, generation: int, reports: Sequence[Report]) -> Any:
        name = task.sink.name
        handle = Handle(self.pipeline, generation, name, epoch, DRIVER_PARTITION, 0)

        def job() -> Committable | None:
            assert task.sink.merge is not None
            parts = [report.gathered[name] for report in reports if name in report.gathered]
            table = combine(parts, task.sink.merge, name)
            return None if table is None else _write_table(task.sink, handle, table, task.hint)

        return job

    def _offsets_job(self, name: str, epoch: int, generation: int) -> Any:
        committer = self.participants.committers[name]
        handle = Handle(self.pipeline, generation, name, epoch, DRIVER_PARTITION, 0)

        def job() -> Committable | None:
            offsets = {} if self.barrier.start == self.barrier.end else kafka_offsets(self.barrier.end)
            if not offsets:
                return None
            failpoints.hit_branch("pass.open", handle)
            failpoints.hit_branch("pass.prepare", handle)
            assert isinstance(committer, OffsetsCommitter)
            made = committer.prepare_offsets(handle, offsets, committer.hint())
            failpoints.hit_branch("pass.prepared", handle)
            return made

        return job

    # The manifest ----------------------------------------------------------------------------------------------

    def _parts(self, reports: Sequence[Report], driver: Mapping[str, Committable]) -> dict[str, SinkPart]:
        parts = {}
        for name, sink in self.participants.sinks.items():
            entries = [report.body["sinks"][name] for report in reports if name in report.body["sinks"]]
            digest = sum(int(entry["digest"], 16) for entry in entries) % 2**64
            branches = [
                Branch(Committable.from_json(entry["committable"]), entry["digest"])
                for entry in entries
                if entry["committable"] is not None
            ]
            if name in driver:
                branches.append(Branch(driver[name], f"{digest:016x}"))
            parts[name] = SinkPart(
                kind=sink.kind,
                identity=self.engine.claim["sinks"][name],
                rows=sum(entry["rows"] for entry in entries),
                digest=f"{digest:016x}",
                branches=tuple(branches),
                previous_epoch=self.engine.journal.history.last_epoch_of(name),
            )
        return parts

    def _manifest(
        self, epoch: int, generation: int, reports: Sequence[Report], driver: Mapping[str, Committable]
    ) -> Manifest:
        counts = {
            "rows": sum(report.body["rows"] for report in reports),
            "unrouted": sum(report.body["unrouted"] for report in reports),
            "partitions": len(reports),
        }
        late = self.late_rows()
        if late is not None:
            counts["late"] = late
        return Manifest(self.pipeline, generation, epoch, self.barrier, self._parts(reports, driver), counts)


def _reports(rows: Sequence[tuple[str, bytes]]) -> list[Report]:
    """Rows of one task follow each other: first its report, then what it gathered."""
    reports: list[Report] = []
    for sink, payload in rows:
        if sink == "":
            reports.append(Report(parse(payload), {}))
        else:
            last = reports[-1]
            reports[-1] = Report(last.body, {**last.gathered, sink: payload})
    return reports


def _slowest(sink: str, reports: Sequence[Report]) -> dict[str, float]:
    """How long the slowest task took for a sink, in seconds."""
    entries = [report.body["sinks"][sink] for report in reports]
    return {
        phase: round(max((entry[f"{phase}_seconds"] for entry in entries), default=0.0), 6)
        for phase in ("write", "flush", "prepare")
    }


def _worst(errors: Sequence[TpcError]) -> TpcError:
    """Of several tasks' errors the one that a restart does not cure, if there is one."""
    return next((error for error in errors if not isinstance(error, TransientError)), errors[0])


def _write_table(sink: Sink, handle: Handle, table: pyarrow.Table, hint: JSONObject) -> Committable | None:
    failpoints.hit_branch("pass.open", handle)
    writer = sink.writer(handle, table.schema, hint)
    try:
        failpoints.hit_branch("pass.write", handle)
        for batch in table.combine_chunks().to_batches():
            writer.write(batch)
        failpoints.hit_branch("pass.prepare", handle)
        made = writer.prepare()
        failpoints.hit_branch("pass.prepared", handle)
        return made
    except BaseException:
        writer.abort()
        raise


def _lost_digests(effect: ReplayEpoch) -> dict[str, frozenset[str]]:
    """Sink -> digests of the rows whose branches are lost."""
    if effect.manifest is None:
        return {}
    lost: dict[str, frozenset[str]] = {}
    for sink, branch in effect.manifest.branches():
        if str(branch.committable.handle) in effect.lost:
            lost[sink] = lost.get(sink, frozenset()) | {branch.digest}
    return lost


def _replacements(effect: ReplayEpoch, parts: Mapping[str, SinkPart]) -> dict[str, Branch]:
    """The lost branches' handles with the branches of the same rows that were written anew, each for one of them."""
    if effect.manifest is None:
        return {}
    made = {sink: list(part.branches) for sink, part in parts.items()}
    found: dict[str, Branch] = {}
    for sink, branch in effect.manifest.branches():
        handle = branch.committable.handle
        if str(handle) not in effect.lost:
            continue
        equal = [new for new in made[sink] if new.digest == branch.digest]
        # Of several with equal digests the partition of the same number, as far as a number says anything.
        equal.sort(key=lambda new: new.committable.handle.partition != handle.partition)
        if equal:
            made[sink].remove(equal[0])
            found[str(handle)] = equal[0]
    return found
