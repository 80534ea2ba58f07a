"""The user's entry: a pipeline is one streaming query whose sinks commit together.

Checks what the user says (`pipeline_description`), and starts the query: `tpc.pipeline(...)`, `.start()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.job import Preparation, refuse_foreign
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LOG_FOLDER
from tpc.coordinator.kernel.observing import Observing
from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.coordinator.operations.monitoring.health import HealthPlace
from tpc.coordinator.operations.monitoring.listeners import observing
from tpc.coordinator.operations.monitoring.metrics_server import MetricsPlace
from tpc.coordinator.operations.page.ui_server import PagePlace
from tpc.coordinator.spark.executors import ask_executors
from tpc.coordinator.spark.passes.plan import compile_plan
from tpc.coordinator.spark.pipeline_description import PipelineDescription
from tpc.coordinator.spark.plan_checks import check_plan
from tpc.coordinator.spark.query import PipelineQuery
from tpc.coordinator.spark.read_topics import ReadTopics, planned, sources_asked
from tpc.coordinator.spark.secrets import warn_of_logged_secrets
from tpc.coordinator.spark.settings import (
    refuse_named_sources,
    refuse_options,
    refuse_speculation,
    refuse_trigger,
    retained_batches,
)
from tpc.coordinator.spark.sink_contexts import check_contexts, check_partitioning, written_by_tasks
from tpc.errors import ConfigurationError
from tpc.safety import annotate_errors, data_status
from tpc.source_records import Inputs
from tpc.states import MachineState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["LOG_FOLDER", "Pipeline", "pipeline"]


@dataclass(frozen=True, kw_only=True)
class PreparedQuery(Preparation):
    """A start of Spark's."""

    query: PipelineQuery


class Pipeline(PipelineDescription):
    """One streaming query with its sinks. See `pipeline()`."""

    needs_spark = True

    def coordinator(self, *, keep_epochs: int = 0) -> Coordinator:
        """The driver's half without Spark: for recovery and inspection as much as for a start."""
        settings = replace(self.settings, keep_epochs=max(keep_epochs, self.settings.keep_epochs))
        return Coordinator(self.id, self.sinks, self.log, self.checkpoint, settings)

    def inputs(self) -> Inputs:
        """See `Job.inputs`."""
        return planned(self._writings, self.coordinator())[1]

    # Start -----------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        trigger: Mapping[str, Any] | None = None,
        takeover: bool = False,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        metrics_registry: CollectorRegistry | None = None,
        health_port: int | None = None,
        health_host: str = "127.0.0.1",
        silent_after_s: float = 1800.0,
        ui_port: int | None = None,
        ui_host: str = "127.0.0.1",
    ) -> PipelineQuery:
        """Check everything, recover what an earlier run left, and start the query.

        `trigger` is what PySpark's `trigger()` takes, e.g. `{"processingTime": "1 second"}`. `takeover` goes past
        the lock of another process on this machine and fences it. With `metrics_port` or `metrics_registry` (else
        prometheus_client's own) metrics are counted. With `health_port`, `/healthz` and `/readyz` are served there (an
        epoch under way for `silent_after_s` seconds is no health), with `ui_port` the page of `tpc ui`. Ports close
        with the query. Raises `ConfigurationError` before anything is written, `ParkedError` and other `DecidedError`s
        when a decided epoch cannot be finished.
        """
        trigger = trigger or {}
        with annotate_errors(partial(data_status, MachineState(self.id))):
            ready = self.prepared(trigger)
            metrics = MetricsPlace(metrics_port, metrics_host, metrics_registry)
            health = HealthPlace(health_port, health_host, silent_after_s)
            page = PagePlace(ui_port, ui_host, self.log, self.checkpoint, self.id, self.sinks)
            ready.coordinator.observed_by(self._observing(metrics, health, page))
        try:
            ready.coordinator.lock(takeover=takeover)
            with sources_asked(ready):
                ready.coordinator.take_over(ready.contexts, ready.columns)
            with ready.coordinator.engine.annotate_errors():
                ready.ask_others(False)
            ready.query.start(trigger)
        except BaseException:
            ready.coordinator.close()
            raise
        return ready.query

    def run_to_end(self, options: Mapping[str, Any]) -> None:
        """See `Job.run_to_end`."""
        from tpc.coordinator.operations.supervision.job_process import await_end

        what = "is for a service, and this is a pipeline of Spark"
        refuse_foreign(options, ("every_s", "standby_s"), what, "say --trigger.")
        await_end(self.start(**options))

    def _observing(self, metrics: MetricsPlace, health: HealthPlace, page: PagePlace) -> Observing:
        names, callbacks = [sink.name for sink in self.sinks], (self._on_complete, self._on_decision_needed)
        return observing(self.id.name, names, self.checkpoint.notes, *callbacks, metrics, health, page)

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
        coordinator = self.coordinator(keep_epochs=retained_batches(session))
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
            wanted.check(history, coordinator.spark_log)
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
