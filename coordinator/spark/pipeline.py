"""The user's entry: a pipeline is one streaming query whose sinks commit together.

Checks what the user says (`pipeline_description`), and starts the query: `tpc.pipeline(...)`, `.start()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.job import Preparation, refuse_foreign
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LOG_FOLDER
from tpc.coordinator.kernel.observers import Observers, listeners_of
from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.coordinator.spark.executors import ask_executors
from tpc.coordinator.spark.passes.plan import compile_plan
from tpc.coordinator.spark.pipeline_description import PipelineDescription
from tpc.coordinator.spark.plan_checks import check_plan
from tpc.coordinator.spark.query import PipelineQuery
from tpc.coordinator.spark.read_topics import ReadTopics, planned, sources_asked
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.coordinator.spark.secrets import warn_of_logged_secrets
from tpc.coordinator.spark.settings import (
    refuse_active_query,
    refuse_named_sources,
    refuse_options,
    refuse_speculation,
    refuse_trigger,
    retained_batches,
)
from tpc.coordinator.spark.sigterm import await_end
from tpc.coordinator.spark.sink_contexts import check_contexts, check_partitioning, written_by_tasks
from tpc.coordinator.spark.source_lag import HearsOfSources, SourceLagNote
from tpc.data_status import annotate_errors, data_status
from tpc.errors import ConfigurationError
from tpc.source_records import Inputs
from tpc.states import MachineState

__all__ = ["LOG_FOLDER", "Pipeline", "pipeline"]


@dataclass(frozen=True, kw_only=True)
class PreparedQuery(Preparation):
    """A start of Spark's."""

    query: PipelineQuery


class Pipeline(PipelineDescription):
    """One streaming query with its sinks. See `pipeline()`."""

    needs_java = True

    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """The driver's half without Spark: for recovery and inspection as much as for a start."""
        return self._coordinator(SparkRuntime(self.checkpoint), keep_epochs)

    def _coordinator(self, runtime: SparkRuntime, keep_epochs: int) -> Coordinator:
        settings = replace(self.settings, keep_epochs=max(keep_epochs, self.settings.keep_epochs))
        return Coordinator(self.id, self.sinks, self.log, runtime, settings)

    def inputs(self) -> Inputs:
        """See `Job.inputs`."""
        return planned(self._writings, self.coordinator())[1]

    # Start -----------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        trigger: Mapping[str, Any] | None = None,
        takeover: bool = False,
        serve: Observers | None = None,
    ) -> PipelineQuery:
        """Check everything, recover what an earlier run left, and start the query.

        `trigger` is what PySpark's `trigger()` takes, e.g. `{"processingTime": "1 second"}`. `takeover` goes past
        the lock of another process on this machine and fences it. `serve` is `tpc.Serve(...)`: ports for metrics,
        health and the page, open from before anything is written until the query has ended. Raises
        `ConfigurationError` before anything is written, `ParkedError` and other `DecidedError`s when a decided epoch
        cannot be finished.
        """
        trigger = trigger or {}
        with annotate_errors(partial(data_status, MachineState(self.id))):
            ready = self.prepared(trigger)
            ready.coordinator.observed_by(self._observing(serve))
        try:
            ready.coordinator.lock(takeover=takeover)
            with sources_asked(ready):
                ready.coordinator.recover(ready.contexts, ready.columns)
            with ready.coordinator.engine.annotate_errors():
                ready.ask_others(False)
                ready.query.start(trigger)
        except BaseException:
            ready.coordinator.close()
            raise
        return ready.query

    def run_to_end(self, options: Mapping[str, Any]) -> None:
        """See `Job.run_to_end`."""
        what = "is for a service, and this is a pipeline of Spark"
        refuse_foreign(options, ("every_s", "every_events", "every_bytes", "standby_s"), what, "say --trigger.")
        await_end(self.start(**options))

    def _observing(self, serve: Observers | None) -> Listeners:
        listeners = listeners_of(self, self._on_complete, self._on_decision_needed, serve)
        hear_of_sources = [one.tell_of_sources for one in listeners if isinstance(one, HearsOfSources)]
        return Listeners(SystemClock(), listeners, [SourceLagNote(self.checkpoint.notes).keep, *hear_of_sources])

    def prepared(self, trigger: Mapping[str, Any] | None = None) -> PreparedQuery:
        """See `Job.prepared`."""
        trigger = {} if trigger is None else trigger
        refuse_trigger(trigger)
        refuse_options(self._options)
        self.log.require_lasting()
        if not self._writings:
            raise ConfigurationError("the pipeline writes nothing", remedy="pipeline.write(df).to(sink)")
        session = self._writings[0].frame.sparkSession
        refuse_named_sources(session)
        refuse_active_query(session, self.id.name)
        runtime = SparkRuntime(self.checkpoint)
        coordinator = self._coordinator(runtime, retained_batches(session))
        writings, inputs = planned(self._writings, coordinator)
        plan = compile_plan(writings, self._dead_letters)
        coordinator.inputs = wanted = WantedInputs(inputs)
        topics = ReadTopics(wanted, plan.frame)
        check_partitioning(plan, self._writings, self.sinks, self.id)
        stateful = check_plan(plan.frame, plan.unguarded, trigger)
        refuse_speculation(session, coordinator.participants.sinks)
        warn_of_logged_secrets(session, {**coordinator.participants.sinks, "its log": self.log})
        query = PipelineQuery(
            coordinator,
            runtime,
            plan,
            stateful=stateful,
            offsets_sink=self._offsets_sink,
            unrouted_is_error=self.unrouted_is_error,
            options=self._options,
            topics=topics,
            letters=self._dead_letters,
        )
        contexts = check_contexts(plan, self.sinks, self._offsets_sink, self.id, session, stateful=stateful)
        by_tasks = written_by_tasks(plan, self.sinks, self._offsets_sink)
        asking = partial(ask_executors, session, by_tasks, self.id)

        def ask_sources() -> None:
            history = coordinator.read()
            wanted.check(history, runtime)
            topics.look(history)

        return PreparedQuery(coordinator, contexts, plan.columns, asking, ask_sources, query=query)


def pipeline(
    name: str,
    *,
    checkpoint: str | Path | None = None,
    incarnation: int = 1,
    log: Log | None = None,
    unrouted: str = "count",
    settings: EngineSettings | None = None,
) -> Pipeline:
    """A pipeline named `name`, whose Spark checkpoint and intent log lie in `checkpoint`, a directory or a URL.

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
