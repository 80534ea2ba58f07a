"""Metrics of a running pipeline, for Prometheus: what the engine's transitions tell, counted. Constant work per epoch.

Asks neither sink nor log. What each metric means is in docs/reference/metrics.md; who serves them, in
`metrics_server`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.epochs import epoch_row
from tpc.coordinator.kernel.notices import Notice, Turn
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.monitoring.epoch_report import event_time_of, timers_of
from tpc.effects import Commit
from tpc.events import Aborted, Answered, Opened, Prepared, Stored
from tpc.handles import Handle
from tpc.history import History
from tpc.sink import Verdict
from tpc.states import MachineState, Phase

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the histograms' buckets: from a fast commit to a pass that nobody wants."""

OUTCOMES = {Turn.COMPLETE: "complete", Turn.FAILED: "failed", Turn.PARKED: "parked"}
PUTS = {
    Phase.CLAIMING: "generation",
    Phase.DECIDING: "intent",
    Phase.REPAIRING: "repair",
    Phase.COMPLETING: "complete",
}
"""In which phase which kind of record is put."""


class Families:
    """The metrics of all pipelines that are counted in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        one, sink = ["pipeline"], ["pipeline", "sink"]

        def counter(name: str, what: str, labels: list[str]) -> Counter:
            return Counter(name, what, labels, registry=registry)

        def gauge(name: str, what: str, labels: list[str]) -> Gauge:
            return Gauge(name, what, labels, registry=registry)

        def histogram(name: str, what: str, labels: list[str]) -> Histogram:
            return Histogram(name, what, labels, registry=registry, buckets=SECONDS)

        self.epochs = counter("tpc_epochs_total", "Epochs by their outcome.", ["pipeline", "outcome"])
        self.phases = histogram("tpc_epoch_phase_seconds", "How long a phase took.", ["pipeline", "phase"])
        self.rows = counter("tpc_rows_total", "Rows of complete epochs.", sink)
        self.bytes = counter("tpc_bytes_total", "Bytes prepared in complete epochs.", sink)
        self.commits = histogram("tpc_commit_seconds", "How long the last commit call of an epoch took.", sink)
        self.retries = counter("tpc_commit_retries_total", "Times that commits were sent again.", one)
        self.unknown = counter("tpc_commit_unknown_total", "Answers to commits that left open what happened.", sink)
        self.in_doubt = gauge("tpc_branches_in_doubt", "Branches prepared and neither committed nor aborted.", sink)
        self.oldest = gauge("tpc_oldest_in_doubt_seconds", "Since when branches are in doubt; 0: none is.", one)
        self.parked = gauge("tpc_parked", "Whether a sink refuses the decided epoch for good.", one)
        self.completed_at = gauge("tpc_last_complete_timestamp_seconds", "When the last epoch was complete.", one)
        self.last_complete = gauge("tpc_last_complete_epoch", "The last complete epoch.", one)
        self.generation = gauge("tpc_generation", "The coordinator's term.", one)
        self.watermark = gauge("tpc_watermark_timestamp_seconds", "How far a service has come in event time.", one)
        self.idle = gauge("tpc_idle_sources", "Sources of a service that do not hold its watermark back.", one)
        self.too_far = counter("tpc_too_far_events_total", "Events too far ahead of the clock.", ["pipeline", "source"])
        self.timers = gauge("tpc_timers_waiting", "Timers of a service that wait, and entries with on_expiry.", one)
        by = ["pipeline", "by"]
        self.next_due = gauge("tpc_timers_next_due_timestamp_seconds", "When the first of them is due; NaN: none.", by)
        self.fired = counter("tpc_timers_fired_total", "Firings in complete epochs.", one)
        self.recoveries = counter("tpc_recoveries_total", "Starts that have taken over.", one)
        self.recovered_at = gauge("tpc_last_recovery_timestamp_seconds", "When the last start had taken over.", one)
        self.recovery = histogram("tpc_recovery_seconds", "How long a start took to take over.", one)
        self.puts = counter("tpc_log_puts_total", "Records put into the log.", ["pipeline", "kind"])
        self.late = counter("tpc_late_rows_total", "Rows that watermarks dropped.", one)
        self.unrouted = counter("tpc_unrouted_rows_total", "Rows that no sink took.", one)
        self.read = counter("tpc_read_rows_total", "Rows that complete epochs have read.", one)
        source = ["pipeline", "source"]
        self.waiting = gauge("tpc_source_waiting_offsets", "Offsets that no epoch has read yet.", [*source, "topic"])
        self.asked_at = gauge("tpc_source_asked_timestamp_seconds", "When a source was last asked.", source)


_FAMILIES: WeakKeyDictionary[CollectorRegistry, Families] = WeakKeyDictionary()


def families(registry: CollectorRegistry) -> Families:
    """Those of a registry, made when they are first asked for: it takes no name twice."""
    if registry not in _FAMILIES:
        _FAMILIES[registry] = Families(registry)
    return _FAMILIES[registry]


class Metrics:
    """Counts what happens to one pipeline. Everything that can be counted stands at 0 from the start."""

    def __init__(self, registry: CollectorRegistry, pipeline: str, sinks: Iterable[str], clock: Clock) -> None:
        self._of = families(registry)
        self._name = pipeline
        self._sinks = tuple(sinks)
        self._clock = clock
        self._in_doubt_since: float | None = None
        of = self._of
        for family in (of.retries, of.recoveries, of.read, of.late, of.unrouted, of.parked, of.generation, of.recovery):
            family.labels(pipeline)
        for by_sink in (of.rows, of.bytes, of.commits, of.unknown, of.in_doubt):
            for sink in self._sinks:
                by_sink.labels(pipeline, sink)
        for outcome in OUTCOMES.values():
            of.epochs.labels(pipeline, outcome)
        for kind in PUTS.values():
            of.puts.labels(pipeline, kind)
        of.oldest.labels(pipeline).set_function(self._age_s)

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Count one step of the machine."""
        before, event, after = transition.before, transition.event, transition.after
        if isinstance(event, Opened):
            self._show_last_complete(transition.history)
        if isinstance(event, Stored):
            self._of.puts.labels(self._name, PUTS[before.phase]).inc()
        if isinstance(event, Answered):
            self._count_unknown(event)
        if any(isinstance(effect, Commit) and effect.attempt for effect in transition.effects):
            self._of.retries.labels(self._name).inc()
        self._of.generation.labels(self._name).set(after.generation)
        self._show_in_doubt(transition)
        if notice is not None:
            self._count(notice, transition)

    def tell_of_sources(self, lag: SourceLag) -> None:
        """Show what waits in the sources that tell, and when they were asked; of others nothing is shown."""
        for number, topics in enumerate(lag.waiting):
            if topics is not None:
                source = str(number)
                self._of.asked_at.labels(self._name, source).set(lag.asked_at)
                for topic, offsets in topics.items():
                    self._of.waiting.labels(self._name, source, topic).set(offsets)

    def close(self) -> None:
        """What was counted stays in the registry, and what is in doubt stays in doubt."""

    # Epochs and starts -----------------------------------------------------------------------------------------

    def _count(self, notice: Notice, transition: Transition) -> None:
        of, name = self._of, self._name
        if notice.turn is Turn.RECOVERED:
            of.recoveries.labels(name).inc()
            of.recovery.labels(name).observe(notice.seconds or 0.0)
            of.recovered_at.labels(name).set(self._clock.wall())
        if notice.turn in OUTCOMES and notice.epoch is not None:
            of.epochs.labels(name, OUTCOMES[notice.turn]).inc()
        if notice.turn in (Turn.PARKED, Turn.COMPLETE):
            of.parked.labels(name).set(notice.turn is Turn.PARKED)
        if notice.turn is Turn.COMPLETE:
            self._count_complete(transition)

    def _count_complete(self, transition: Transition) -> None:
        history, of, name = transition.history, self._of, self._name
        self._show_last_complete(history)
        assert history.last_complete is not None
        row = epoch_row(history, history.last_complete)
        for sink, part in row["sinks"].items():
            of.rows.labels(name, sink).inc(part["rows"])
            of.bytes.labels(name, sink).inc(part["size_bytes"])
        for sink, seconds in row["commit_seconds"].items():
            of.commits.labels(name, sink).observe(seconds)
        self._count_event_time(event_time_of(history.manifests.get(history.last_complete)))
        self._count_timers(timers_of(history.manifests.get(history.last_complete)))
        of.read.labels(name).inc(row["rows"])
        of.late.labels(name).inc(row["late"] or 0)
        of.unrouted.labels(name).inc(row["unrouted"])
        if transition.before.epoch is not None:  # else a start has finished it, and its times are the start's
            for phase, seconds in transition.seconds.items():
                of.phases.labels(name, phase).observe(seconds)

    def _count_event_time(self, told: dict[str, Any] | None) -> None:
        if told is None:
            return
        self._of.idle.labels(self._name).set(len(told["idle"]))
        if told["watermark_ms"] is not None:
            self._of.watermark.labels(self._name).set(told["watermark_ms"] / 1000)
        for source in told["sources"]:
            self._of.too_far.labels(self._name, source).inc(told["too_far"].get(source, 0))

    def _count_timers(self, told: dict[str, Any] | None) -> None:
        if told is None:
            return
        self._of.timers.labels(self._name).set(told["waiting"])
        self._of.fired.labels(self._name).inc(told["fired"])
        for by, due_ms in (("event time", told["next_due_ms"]), ("clock", told["next_clock_due_ms"])):
            self._of.next_due.labels(self._name, by).set(float("nan") if due_ms is None else due_ms / 1000)

    def _show_last_complete(self, history: History) -> None:
        if history.last_complete is None:
            return
        self._of.last_complete.labels(self._name).set(history.last_complete)
        completed_at = history.completed.get(history.last_complete, {}).get("completed_at")
        if completed_at is not None:
            self._of.completed_at.labels(self._name).set(completed_at)

    # Branches --------------------------------------------------------------------------------------------------

    def _count_unknown(self, event: Answered) -> None:
        for handle, outcome in event.outcomes.items():
            if outcome.verdict is Verdict.UNKNOWN:
                self._of.unknown.labels(self._name, Handle.parse(handle).sink).inc()

    def _show_in_doubt(self, transition: Transition) -> None:
        """Only where it can have changed; what a sweep would find of dead tasks is not known here."""
        event, state = transition.event, transition.after
        if isinstance(event, Prepared):
            found = Tally(sink for sink, _ in event.manifest.branches())
        elif isinstance(event, (Opened, Stored, Answered)):
            found = _decided_in_doubt(state)
        elif isinstance(event, Aborted):
            found = Tally()
        else:
            return
        for sink in {*self._sinks, *found}:
            self._of.in_doubt.labels(self._name, sink).set(found[sink])
        if not found:
            self._in_doubt_since = None
        elif self._in_doubt_since is None:
            self._in_doubt_since = self._clock.monotonic()

    def _age_s(self) -> float:
        since = self._in_doubt_since
        return 0.0 if since is None else self._clock.monotonic() - since


def _decided_in_doubt(state: MachineState) -> Tally[str]:
    """Branches of the decided epoch that are not known to be committed; one that is lost is not there."""
    if state.pending is None:
        return Tally()
    return Tally(Handle.parse(handle).sink for handle in {*state.unsettled, *state.refused})
