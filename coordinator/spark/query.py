"""A running pipeline: a StreamingQuery to its user, with the epochs' history.

Owns the batch function that Spark calls, and the thread that watches over the query until its connections are closed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any

from tpc import failpoints
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.spark.batch_metrics import BatchMetrics
from tpc.coordinator.spark.callbacks import require_callbacks, resume_callbacks
from tpc.coordinator.spark.java_errors import in_words, raise_alone, translated_errors
from tpc.coordinator.spark.orderly_stop import OrderlyStop, StopAskedError, tell_replay
from tpc.coordinator.spark.parallelism import parallelism_to_repair
from tpc.coordinator.spark.passes.dead_letters import DeadLetters, LettersSoFar
from tpc.coordinator.spark.passes.driver import SparkPass
from tpc.coordinator.spark.passes.plan import PassPlan
from tpc.coordinator.spark.plan_checks import reads_table
from tpc.coordinator.spark.read_topics import ReadTopics
from tpc.coordinator.spark.running_plan import running_plan
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.coordinator.spark.settings import available_now_for_tables, explicit_settings, settings_lock, stateful_settings
from tpc.coordinator.spark.source_lag import SourceWatch
from tpc.coordinator.spark.source_logs import source_folders
from tpc.coordinator.spark.state_partitions import SETTING, state_partitions, tell_passed_over
from tpc.errors import TpcError
from tpc.manifest import EpochInput
from tpc.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger(__name__)


# What a pipeline's query tells of itself under the names of PySpark's StreamingQuery. Asks Spark, changes nothing.


class QueryFacts:
    """The part of `PipelineQuery` that only reads."""

    _coordinator: Coordinator
    _query: StreamingQuery | None = None
    _failed_epochs: list[dict[str, Any]]
    _failure: BaseException | None
    _ended: threading.Event

    @property
    def _running(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    @property
    def id(self) -> str:
        """The query's id, the same after every restart."""
        return str(self._running.id)

    @property
    def runId(self) -> str:  # noqa: N802  PySpark's name
        """The id of this start."""
        return str(self._running.runId)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._coordinator.pipeline.name

    @property
    def isActive(self) -> bool:  # noqa: N802  PySpark's name
        """Whether the query runs."""
        return bool(self._running.isActive)

    def _is_running(self) -> bool:
        """As `isActive`, False too where the JVM does not answer."""
        try:
            return self.isActive
        except Exception as error:  # noqa: BLE001  the JVM is gone, and the query with it
            logger.debug("the query cannot be asked whether it runs: %s", error)
            return False

    @property
    def lastProgress(self) -> Any:  # noqa: N802  PySpark's name
        """Spark's progress of the last batch."""
        return self._running.lastProgress

    @property
    def recentProgress(self) -> Any:  # noqa: N802  PySpark's name
        """Spark's progress of the last batches."""
        return self._running.recentProgress

    def history(self) -> list[dict[str, Any]]:
        """One dict per epoch that the log still holds, oldest first (`coordinator.kernel.epochs`), and failed ones.

        `spark_seconds` of an epoch are the durations that Spark tells of it (`commitOffsets`: its own commit).
        """
        rows, durations = epoch_rows(self._coordinator.journal.history), spark_seconds(self._query)
        for row in rows:
            row["spark_seconds"] = durations.get(row["epoch"], {})
        return rows + self._failed_epochs

    def exception(self) -> BaseException | None:
        """What ended the query; None while it runs or when it ended well."""
        return self._failure if self._ended.is_set() else None


def spark_seconds(query: StreamingQuery | None) -> dict[int, dict[str, float]]:
    """By batch, as long as Spark keeps its progress (`spark.sql.streaming.numRecentProgressUpdates`)."""
    from py4j.protocol import Py4JError

    if query is None:
        return {}
    try:
        reports = query.recentProgress
    except (Py4JError, OSError):  # its JVM has ended; the history itself is ours
        return {}
    return {
        progress["batchId"]: {name: ms / 1000 for name, ms in progress["durationMs"].items()}
        for progress in reports
        if "commitOffsets" in progress["durationMs"]  # else it tells of a trigger that found no data
    }


_UPKEEP_INTERVAL_S = 1
_BATCH_ENDS_WITHIN_S = 60.0
"""After its query: it may be undoing an epoch, in systems that are away."""


class PipelineQuery(QueryFacts):
    """What `pipeline.start()` returns. The names are those of PySpark's StreamingQuery, plus `history`."""

    def __init__(
        self,
        coordinator: Coordinator,
        runtime: SparkRuntime,
        plan: PassPlan,
        *,
        stateful: bool,
        offsets_sink: Sink | None,
        unrouted_is_error: bool,
        options: Mapping[str, str],
        topics: ReadTopics,
        letters: DeadLetters | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._runtime = runtime
        self._plan = plan
        self._stateful = stateful
        self._offsets_sink = None if offsets_sink is None else offsets_sink.name
        self._unrouted_is_error = unrouted_is_error
        self._options = dict(options)
        self._topics = topics
        self._letters = letters
        self._session = plan.frame.sparkSession
        self._failure: BaseException | None = None
        self._failed_epochs: list[dict[str, Any]] = []
        self._stop_request = StopRequest(coordinator.checkpoint.notes)
        timeout_s = coordinator.engine.settings.stop_timeout_s
        self._stop = OrderlyStop(runtime.log, lambda: coordinator.journal.history, timeout_s)
        self._ended, self._ending = threading.Event(), threading.Lock()
        self._sources = SourceWatch()
        self._batch_metrics: BatchMetrics | None = None
        self._batch_function = BatchFunction(self._batch)

    # Starting --------------------------------------------------------------------------------------------------

    def start(self, trigger: Mapping[str, Any]) -> None:
        """Bring Spark's log up to the intent log and start the query."""
        try:
            self._start(trigger)
        except BaseException:
            self._batch_function.forget()
            raise

    def _start(self, trigger: Mapping[str, Any]) -> None:
        coordinator = self._coordinator
        self._stop_request.remove()
        query_id = coordinator.engine.generation_fields["query_id"]
        self._batch_metrics = BatchMetrics(self._session, query_id, stateful=self._stateful)
        with parallelism_to_repair(coordinator.engine.state, self._session) as is_another:
            self._runtime.reconcile(coordinator, self._run_one_batch, source_folders(self._plan.frame))
            if is_another and coordinator.engine.state.lost:
                self._run_one_batch()
        if self._stateful:
            tell_passed_over(explicit_settings(self._session).get(SETTING), state_partitions(self._runtime.log))
        self._query = self._start_spark(trigger)
        coordinator.tell_ready()
        threading.Thread(target=self._watch, name=f"tpc-{coordinator.pipeline.name}", daemon=True).start()

    def _start_spark(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        name = self._coordinator.pipeline.name
        options = {"checkpointLocation": str(self._coordinator.checkpoint), **self._options}
        return start_query(self._plan.frame, self._batch_function, name, options, trigger, stateful=self._stateful)

    def _run_one_batch(self) -> None:
        """Let Spark run the batch that its log has planned and not committed, and nothing after it."""
        query = self._start_spark({"once": True})
        try:
            with translated_errors():
                while not query.awaitTermination(_UPKEEP_INTERVAL_S):
                    resume_callbacks(self._session)
        except Exception as error:  # noqa: BLE001  raised again
            raise_alone(self._failure or error)

    def _watch(self) -> None:
        """Keep the query company until its end. Whatever happens here, callers are told and connections closed."""
        try:
            while not self._has_ended():
                self._upkeep()
        finally:
            self._coordinator.engine.stopping.set()
            # Where the JVM has died the batch learns of it at the same moment, and still has an epoch to undo. One that
            # Spark still begins is refused: its end would be told to no caller.
            self._stop.close(_BATCH_ENDS_WITHIN_S)
            self._batch_function.forget()
            try:
                self._topics.close()
                self._coordinator.close()
            except Exception as error:  # noqa: BLE001  told to the user by awaitTermination and exception
                self._fail(error)
            finally:
                self._ended.set()

    def _upkeep(self) -> None:
        """Sweep if it is time to. After any error the machine is in the middle of a step, so the query ends."""
        try:
            resume_callbacks(self._session)
            self._coordinator.upkeep()
            self._stop_if_asked()
        except Exception as error:
            logger.exception("the pipeline stops: its upkeep failed")
            self._fail(error)
            self._stop_if_it_runs()

    def _stop_if_asked(self) -> None:
        """Stop when another process asks, or a batch has."""
        if self._stop_request.is_made() and not self._stop.is_asked.is_set():
            logger.info("the pipeline is asked to stop after its current epoch")
            self._stop.is_asked.set()
        if self._stop.is_asked.is_set():
            self._end_in_order()

    def _end_in_order(self) -> None:
        """End the query once Spark has committed the last decided epoch too, and say so where it has not."""
        with self._ending:  # by who calls `stop`, and by the watch
            left = self._stop.await_commit(self._is_running, self._coordinator.engine.stopping.set)
            if left is not None:
                self._fail(self._coordinator.engine.fenced() or self._stop.not_committed(left))
                tell_replay(self._failure, left)
            self._stop_if_it_runs()

    def _has_ended(self) -> bool:
        """Wait for the query's end, for at most the upkeep's interval."""
        try:
            # Of the files of another coordinator's query Spark tells in words of its own.
            with self._coordinator.engine.annotate_errors(), translated_errors():
                return bool(self._running.awaitTermination(_UPKEEP_INTERVAL_S))
        except Exception as error:  # noqa: BLE001  told to the user by awaitTermination and exception
            if not self._stop.is_asked.is_set():
                self._fail(error)
            self._stop_if_it_runs()
            return True
        finally:
            self._sources.look(self._running, self._coordinator.observing.tell_of_sources)

    def _stop_if_it_runs(self) -> None:
        """The wait may have failed and not the query: out of file descriptors, say, on the way to the JVM."""
        try:
            if self._is_running():
                self._running.stop()
        except Exception as error:  # noqa: BLE001  the JVM is gone, and the query with it
            logger.debug("the query cannot be stopped: %s", error)

    def _fail(self, error: BaseException) -> None:
        """The first failure is the one that users are told."""
        if isinstance(told := in_words(error), TpcError):
            told.located(pipeline=str(self._coordinator.pipeline))
        self._failure = self._failure or told

    # One epoch -------------------------------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, batch: int) -> None:
        try:
            with self._stop.batch(int(batch)):
                self._run_or_fail(frame, int(batch))
        except StopAskedError:
            await_interruption(self._session)
            raise

    def _run_or_fail(self, frame: DataFrame, epoch: int) -> None:
        try:
            with self._coordinator.engine.annotate_errors():
                self._run_epoch(frame, epoch)
        except BaseException as error:
            self._fail(error)
            self._failed_epochs.append({"epoch": epoch, "status": "failed", "failure": str(error)})
            raise

    def _run_epoch(self, frame: DataFrame, epoch: int) -> None:
        coordinator = self._coordinator
        try:
            with coordinator.engine.annotate_errors():
                running = running_plan(self._session, coordinator.engine.generation_fields["query_id"])
                epoch_input = self._runtime.epoch_input(coordinator, epoch, running, stateful=self._stateful)
        except TpcError as error:
            error.located(pipeline=str(coordinator.pipeline), epoch=epoch)
            raise
        failpoints.hit("epoch.planned", epoch=epoch)
        spark_pass = self._pass_over(frame, epoch_input)
        with coordinator.engine.epoch(epoch, spark_pass) as running_epoch:
            if running_epoch.replay is None:
                manifest = spark_pass.write(epoch, running_epoch.generation)
                running_epoch.decide(manifest, spark_pass.report)
            else:
                replayed = spark_pass.replay(running_epoch.replay)
                running_epoch.replayed(replayed, spark_pass.report)
            running_epoch.finish()

    def _pass_over(self, frame: DataFrame, epoch_input: EpochInput) -> SparkPass:
        engine, participants = self._coordinator.engine, self._coordinator.participants
        history, letters = engine.journal.history, self._letters
        context = PassContext(
            pipeline=participants.pipeline,
            epoch_input=epoch_input,
            sinks=participants.sinks,
            committers=participants.committers,
            identities=engine.generation_fields["sinks"],
            previous_epochs={name: history.last_epoch_of(name) for name in participants.sinks},
            offsets_sink=self._offsets_sink,
            letters_sink=None if letters is None else letters.sink.name,
            unrouted_is_error=self._unrouted_is_error,
            phases=engine.executor.phases,
        )
        return SparkPass(
            frame,
            self._plan,
            context,
            metrics=self._batch_metrics,
            files=self._runtime.background_fsync.begin(),
            topics=self._topics.check_of(epoch_input, history),
            bound=None if letters is None else LettersSoFar(letters.bound, history),
        )

    # What users of a StreamingQuery know -----------------------------------------------------------------------

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802  PySpark's name
        """Wait for the end, at most `timeout` seconds; True when it has ended. Raises what ended the query."""
        if not self._ended.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def processAllAvailable(self) -> None:  # noqa: N802  PySpark's name
        """Wait until everything that the sources hold now is committed in every sink."""
        try:
            with translated_errors():
                self._running.processAllAvailable()
        except Exception as error:  # noqa: BLE001  raised again
            raise_alone(self._failure or error)

    def stop(self) -> None:
        """Stop after the current epoch, and after Spark's own commit of it: the next start has nothing to replay.

        A decided epoch that a system does not take is tried for `EngineSettings.stop_timeout_s`; then the next start
        finishes and replays it, and `exception` says so. Called from within a batch it asks, and does not wait.
        """
        self._stop.is_asked.set()
        if self._stop.is_within_batch():
            return
        self._end_in_order()
        self._ended.wait()


# What Spark calls for each batch.


class BatchFunction:
    """Calls `run` until the query has ended; then it leaves nothing behind, neither in Python nor in the JVM.

    Py4J holds a Python function as long as the JVM has a proxy of it, and the JVM a query as long as Python has an
    object of it. A function that holds its own query keeps both for good: in a program that starts a pipeline again and
    again, each start would leave 1.6 MB in the JVM's heap (measured).

    Each thread of the JVM that calls Python has a connection, and a thread of Python that serves it. Py4J keeps both
    when the thread of the JVM has ended (0.10.9, measured), until the process may open no more.
    """

    def __init__(self, run: Callable[[DataFrame, int], None]) -> None:
        self._run: Callable[[DataFrame, int], None] | None = run
        self._connections: set[Any] = set()
        self._is_called = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run a batch. Raises `StopAskedError` once the query has ended."""
        run = self._run
        if run is None:
            raise StopAskedError
        self._is_called = True
        try:
            self._connections.add(_connection_of_this_thread(frame.sparkSession))
            run(frame, batch)
        except Exception:
            raise
        except BaseException as error:
            # Py4J answers for an Exception alone: with any other its thread ends, and the query waits for it for good.
            raise RuntimeError(f"the batch ended with {error!r}") from error
        finally:
            self._is_called = False

    def forget(self) -> None:
        """The query has ended, in the JVM too. Idempotent."""
        self._run = None
        if self._is_called:  # by a query that could not be stopped: it is still to be answered
            return
        for connection in self._connections - {None}:
            # The thread that serves it reads the end, and closes it: `close` would wait for that thread's read.
            with suppress(OSError, AttributeError):  # it is closed already
                connection.socket.shutdown(SHUT_RDWR)
        self._connections.clear()


def _connection_of_this_thread(session: SparkSession) -> Any:
    """Py4J's connection to the thread of the JVM that has called this one; None where threads are not pinned."""
    gateway: Any = session.sparkContext._gateway
    current: Callable[[], Any] = getattr(gateway._gateway_client, "get_thread_connection", lambda: None)
    return current()


# Starts the streaming query under a pipeline: with the settings that it needs, which it takes over at its start.


def start_query(
    frame: DataFrame,
    batch: Callable[[DataFrame, int], None],
    name: str,
    options: Mapping[str, str],
    trigger: Mapping[str, Any],
    *,
    stateful: bool,
) -> StreamingQuery:
    """The query over `frame` whose batches go to `batch`. Settings are changed for this moment alone."""
    require_callbacks(frame.sparkSession)
    writer = frame.writeStream.foreachBatch(batch).queryName(name).options(**options)
    writer = writer.trigger(**trigger) if trigger else writer
    with settings_lock, stateful_settings(frame.sparkSession) if stateful else nullcontext():
        if "availableNow" not in trigger or not reads_table(frame):
            return writer.start()
        with available_now_for_tables(frame.sparkSession) as await_initialized:
            query = writer.start()
            await_initialized(query)
            return query


# Waits in the JVM for the stop of the query that is in its batch function, so that Spark knows its end as a stop.
#
# Spark tells listeners, and `spark.streams.awaitAnyTermination`, that a query has failed when its batch function
# raises. One case counts as stopped: `query.stop()` has interrupted a call of the batch function into the JVM.

_SLICE_MS = 50
_TIMEOUT_S = 5.0
"""The stop comes at once. Nothing interrupts where PySpark's threads are not those of the JVM (PYSPARK_PIN_THREAD)."""


def await_interruption(session: SparkSession) -> None:
    """Called from a batch function. Raises what py4j makes of Java's InterruptedException; returns after a deadline."""
    java: Any = session.sparkContext._jvm
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        java.java.lang.Thread.sleep(_SLICE_MS)
