"""The user's entry: a pipeline is one streaming query whose sinks commit together.

Collects what the user says, checks it, and starts the query: `tpc.pipeline(...)`, `.write(df).to(...)`, `.start()`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.coordinator.coordinator import Coordinator
from tpc.coordinator.engine import EngineSettings
from tpc.coordinator.log.contract import Log
from tpc.coordinator.log.local import LocalLog
from tpc.coordinator.passes.plan import PassPlan, compile_plan
from tpc.coordinator.passes.routes import Writing, names_of
from tpc.coordinator.query import PipelineQuery
from tpc.coordinator.spark.plan_checks import is_stateful, refuse_data_loss, refuse_nondeterminism
from tpc.coordinator.spark.secrets import warn_of_logged_secrets
from tpc.coordinator.spark.settings import (
    local_checkpoint,
    refuse_connect,
    refuse_options,
    refuse_speculation,
    refuse_trigger,
    retained_batches,
)
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.safety import holds, stated
from tpc.schemas import Columns
from tpc.sink import CheckContext, OffsetsCommitter, Sink
from tpc.states import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

LOG_FOLDER = Path("tpc") / "log"
"""Where the intent log lies in a checkpoint, unless the user gives another."""


class Pipeline:
    """One streaming query with its sinks. See `pipeline()`."""

    def __init__(
        self,
        name: str,
        *,
        checkpoint: str | Path | None,
        incarnation: int,
        log: Log | None,
        unrouted: str,
        settings: EngineSettings,
    ) -> None:
        if unrouted not in ("count", "error"):
            raise ConfigurationError(f"unrouted={unrouted!r}", remedy="use 'count' or 'error'.")
        self.id = PipelineId(name, incarnation)
        self.settings = settings
        self.unrouted_is_error = unrouted == "error"
        self._checkpoint = None if checkpoint is None else str(checkpoint)
        self._log = log
        self._writings: list[Writing] = []
        self._options: dict[str, str] = {}
        self._offsets_sink: Sink | None = None

    # What the user says ----------------------------------------------------------------------------------------

    def write(
        self, frame: DataFrame, *, partition_by: str | Sequence[str] = (), order_by: str | Sequence[str] = ()
    ) -> Writing:
        """Begin the routes of a streaming DataFrame; a second one joins the same unit (a union in one query).

        `partition_by` repartitions the epoch by columns, so that keyed merges with that key are written by the
        executors instead of being gathered on the driver (for more than 200,000 keys per epoch). With `order_by` the
        rows that are equal in those columns reach every sink in the order of these, smallest first.
        """
        refuse_connect(frame.sparkSession)
        if not frame.isStreaming:
            raise ConfigurationError("the DataFrame is not a streaming one", remedy="read it with spark.readStream.")
        writing = Writing(frame, names_of(partition_by), names_of(order_by))
        self._writings.append(writing)
        return writing

    def offsets_to(self, sink: Sink) -> Pipeline:
        """Commit the source offsets of every epoch with it, to the Kafka consumer group of a `KafkaOffsetsSink`.

        Any sink will do whose committer is an `OffsetsCommitter` (`tpc.sink`); others raise `ConfigurationError`.
        """
        if not isinstance(sink, Sink) or not isinstance(sink.committer(self.id), OffsetsCommitter):
            raise ConfigurationError(
                f"a {type(sink).__name__} does not take source offsets",
                pipeline=str(self.id),
                sink=sink.name if isinstance(sink, Sink) else None,
                remedy="give offsets_to() a KafkaOffsetsSink, or a sink whose committer has prepare_offsets() "
                "(tpc.sink.OffsetsCommitter); rows go to a sink by pipeline.write(df).to(sink).",
            )
        self._offsets_sink = sink
        return self

    def option(self, name: str, value: Any) -> Pipeline:
        """An option of Spark's stream writer; `checkpointLocation` means the same as `checkpoint=`."""
        if name.lower() == "checkpointlocation":
            self._checkpoint = str(value)
        else:
            self._options[name] = str(value)
        return self

    # What follows from it --------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint directory. Raises `ConfigurationError` when it is missing or cannot be used."""
        if self._checkpoint is None:
            raise ConfigurationError("the pipeline has no checkpoint", pipeline=str(self.id), remedy="checkpoint=...")
        return local_checkpoint(self._checkpoint, explicit_log=self._log is not None)

    @property
    def log(self) -> Log:
        """The intent log: the user's, or the local directory under the checkpoint."""
        return self._log or LocalLog(self.checkpoint / LOG_FOLDER)

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every sink once. Raises `ConfigurationError` for two of one name."""
        by_name: dict[str, Sink] = {}
        routed = [route.sink for writing in self._writings for route in writing.routes]
        for sink in [*routed, *([self._offsets_sink] if self._offsets_sink is not None else [])]:
            if by_name.setdefault(sink.name, sink) is not sink:
                raise ConfigurationError(
                    f"two sinks have the name {sink.name!r}",
                    pipeline=str(self.id),
                    sink=sink.name,
                    remedy="give one of them another name (name=...); a name is what recovery finds branches by.",
                )
        return tuple(by_name.values())

    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """The driver's half without Spark: for recovery and inspection as much as for a start."""
        settings = replace(self.settings, keep_epochs=max(keep_epochs, self.settings.keep_epochs))
        return Coordinator(self.id, self.sinks, self.log, self.checkpoint, settings)

    def columns(self) -> Mapping[str, Columns]:
        """Name and type of the columns that each sink's rows have. Starts nothing."""
        return compile_plan(self._writings).columns

    # Start -----------------------------------------------------------------------------------------------------

    def start(self, *, trigger: Mapping[str, Any] | None = None, takeover: bool = False) -> PipelineQuery:
        """Check everything, recover what an earlier run left, and start the query.

        `trigger` is what PySpark's `trigger()` takes, e.g. `{"processingTime": "1 second"}`. `takeover` goes past
        the lock of another process on this machine and fences it. Raises `ConfigurationError` before anything is
        written, `ParkedError` and other `DecidedError`s when a decided epoch cannot be finished.
        """
        trigger = {} if trigger is None else trigger
        with stated(partial(holds, State(self.id))):
            coordinator, query, contexts, columns = self._checked(trigger)
        coordinator.lock(takeover=takeover)
        try:
            coordinator.take_over(contexts, columns)
            query.start(trigger)
        except BaseException:
            coordinator.close()
            raise
        return query

    def _checked(
        self, trigger: Mapping[str, Any]
    ) -> tuple[Coordinator, PipelineQuery, dict[str, CheckContext], Mapping[str, Columns]]:
        """What a start needs, after all was refused that can be told without a log or a sink."""
        refuse_trigger(trigger)
        refuse_options(self._options)
        self.log.require_lasting()
        if not self._writings:
            raise ConfigurationError("the pipeline writes nothing", remedy="pipeline.write(df).to(sink)")
        session = self._writings[0].frame.sparkSession
        coordinator = self.coordinator(keep_epochs=retained_batches(session))
        plan = compile_plan(self._writings)
        self._check_partitioning(plan)
        stateful = is_stateful(plan.frame)
        refuse_data_loss(plan.frame)
        if stateful:
            for frame in plan.unguarded:
                refuse_nondeterminism(frame)
        refuse_speculation(session, coordinator.participants.sinks)
        warn_of_logged_secrets(session, {**coordinator.participants.sinks, "its log": self.log})
        query = PipelineQuery(
            coordinator,
            plan,
            stateful=stateful,
            offsets_sink=self._offsets_sink,
            unrouted_is_error=self.unrouted_is_error,
            options=self._options,
        )
        return coordinator, query, self._contexts(plan, session, stateful=stateful), plan.columns

    def _contexts(self, plan: PassPlan, session: SparkSession, *, stateful: bool) -> dict[str, CheckContext]:
        shuffles = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
        parallel = session.sparkContext.defaultParallelism
        partitions = shuffles if stateful or plan.partitioned else parallel
        contexts, sinks = dict[str, CheckContext](), self.sinks
        for sink in sinks:
            peers = tuple(peer for peer in sinks if peer is not sink)
            gathered = sink is self._offsets_sink or (sink.merge is not None and not plan.partitioned)
            schema = plan.schemas.get(sink.name)
            contexts[sink.name] = CheckContext(self.id, schema, 1 if gathered else partitions, peers)
        return contexts

    def _check_partitioning(self, plan: PassPlan) -> None:
        if not plan.partitioned:
            return
        by = self._writings[0].partition_by
        for sink in self.sinks:
            if sink.merge is not None and not set(by) <= set(sink.merge.key):
                raise ConfigurationError(
                    f"partition_by={list(by)} does not keep the rows of one key {list(sink.merge.key)} together",
                    pipeline=str(self.id),
                    sink=sink.name,
                    remedy="partition by columns of the merge's key.",
                )


def pipeline(
    name: str,
    *,
    checkpoint: str | Path | None = None,
    incarnation: int = 1,
    log: Log | None = None,
    unrouted: str = "count",
    settings: EngineSettings | None = None,
) -> Pipeline:
    """A pipeline named `name`, whose Spark checkpoint and intent log lie in `checkpoint`.

    `incarnation` grows when the name deliberately starts a new history on a new checkpoint. `log` puts the intent
    log elsewhere. `unrouted` says what happens to rows that no sink takes: "count" them in the history, or "error".
    """
    return Pipeline(
        name,
        checkpoint=checkpoint,
        incarnation=incarnation,
        log=log,
        unrouted=unrouted,
        settings=settings or EngineSettings(),
    )
