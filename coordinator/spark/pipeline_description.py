"""What the user says of a pipeline of Spark: DataFrames, their routes, and where its checkpoint lies. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.feeding.dead_letter_limit import DeadLetterLimit
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.coordinator.spark.passes.dead_letters import DeadLetters
from tpc.coordinator.spark.passes.plan import compile_plan
from tpc.coordinator.spark.passes.routes import Writing, names_of
from tpc.coordinator.spark.settings import refuse_connect
from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.handles import checked_name
from tpc.parameter_types import kinds_checked
from tpc.schemas import Columns
from tpc.shards import not_a_shard_s
from tpc.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AnyPipeline = TypeVar("AnyPipeline", bound="PipelineDescription")


class PipelineDescription(Job):
    """A pipeline unstarted, without what runs it."""

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
        super().__init__(not_a_shard_s(name), incarnation, unrouted, settings)
        self._checkpoint = None if checkpoint is None else str(checkpoint)
        self._log = log
        self._writings: list[Writing] = []
        self._dead_letters: DeadLetters | None = None
        self._options: dict[str, str] = {}

    # What the user says ----------------------------------------------------------------------------------------

    @kinds_checked
    def write(
        self,
        frame: DataFrame,
        *,
        name: str = "",
        partition_by: str | Sequence[str] = (),
        order_by: str | Sequence[str] = (),
    ) -> Writing:
        """Begin the routes of a streaming DataFrame; a second one joins the same unit (a union in one query).

        All writes share one watermark, the lowest of their sources': a silent source holds back the windows of all.

        With a `name` the position of its sources is found by that, wherever its line is in the program; without one
        by what it reads and the sinks that it feeds.

        `partition_by` repartitions the epoch by columns, so that keyed merges with that key are written by the
        executors instead of being gathered on the driver (for more than 200,000 keys per epoch). With `order_by` the
        rows that are equal in those columns reach every sink in the order of these, smallest first.
        """
        if not hasattr(type(frame), "writeStream"):
            raise ConfigurationError(
                f"pipeline.write() does not take {described(frame, 60)}",
                remedy="give a streaming DataFrame, read with spark.readStream.",
            )
        refuse_connect(frame.sparkSession)
        if not frame.isStreaming:
            raise ConfigurationError("the DataFrame is not a streaming one", remedy="read it with spark.readStream.")
        self._writings.append(
            Writing(frame, names_of(partition_by), names_of(order_by), checked_name(name, "write") if name else "")
        )
        return self._writings[-1]

    @kinds_checked
    def dead_letters_to(
        self,
        sink: Sink,
        *,
        select: Sequence[str] | Mapping[str, str] | None = None,
        max_share: float = 0.1,
        at_least: int = 100,
    ) -> None:
        """Write rows that a sink can never take to `sink`, exactly once with their epoch, instead of ending.

        Such a row goes to none of the sinks of its write. A letter names `write`, `sink`, `error` (the error's type),
        `reason` (its text), `column`, `key` and `row` (as JSON, as the sink would have had it); all are text. `select`
        chooses columns, or renames them (new name to column). `sink` takes nothing else, and does not merge. Where
        there are `at_least` dead letters among the last 10,000 rows, and they are more than `max_share` of these, the
        query ends with a `DataError`.
        """
        if self._dead_letters is not None:
            raise ConfigurationError("dead letters go to one sink", sink=sink.name, remedy="say it once.")
        self._dead_letters = DeadLetters.of(sink, select, DeadLetterLimit(sink.name, max_share, at_least))

    def option(self: AnyPipeline, name: str, value: Any) -> AnyPipeline:
        """An option of Spark's stream writer; `checkpointLocation` means the same as `checkpoint=`."""
        if name.lower() == "checkpointlocation":
            self._checkpoint = str(value)
        else:
            self._options[name] = str(value)
        return self

    # What follows from it --------------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> CheckpointFiles:
        """Spark's checkpoint. Raises `ConfigurationError` when it is missing or cannot be used."""
        if self._checkpoint is None:
            raise ConfigurationError("the pipeline has no checkpoint", pipeline=str(self.id), remedy="checkpoint=...")
        session = self._writings[0].frame.sparkSession if self._writings else None
        return files_at(self._checkpoint, explicit_log=self._log is not None, session=session)

    @property
    def log(self) -> Log:
        """See `Job.log`."""
        return self._log or log_beside(self.checkpoint)

    def _routed(self) -> list[Sink]:
        letters = [] if self._dead_letters is None else [self._dead_letters.sink]
        return [*(route.sink for writing in self._writings for route in writing.routes), *letters]

    def columns(self) -> Mapping[str, Columns]:
        """Name and type of the columns that each sink's rows have. Starts nothing."""
        return compile_plan(self._writings, self._dead_letters).columns
