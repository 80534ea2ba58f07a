"""The pass over one epoch's data, whoever runs it: what is done with each sink, and the manifest of what is prepared.

How the rows come to the sinks is a subclass's (`run`): as one Spark job, or in the process itself. When a pass runs is
decided in the machine. This module knows neither it nor the engine: it is given values (`PassContext`), and hands back
a manifest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.driver_branches import DriverBranches
from tpc.coordinator.kernel.feeding.lost_branches import (
    lost_digests,
    refuse_ambiguous,
    refuse_other_kind,
    replacements,
)
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionReport
from tpc.coordinator.kernel.feeding.parts import manifest_of, parts_of
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.feeding.refused_rows import TOLD, LetterWork
from tpc.coordinator.kernel.feeding.route_plan import RoutePlan
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import Manifest
from tpc.sink import Committable, Sink


class EpochPass(ABC):
    """The pass of one epoch over `routes`; a runtime runs it within `tpc.coordinator.kernel.engine.Engine.epoch`.

    `digests_by_writing` are the digest columns of the routes of each writing: a row with all of them NULL was taken by
    no sink.
    """

    digest_kind: ClassVar[str]
    """What computes the digests; another function of rows is another kind, and gets another name (`tpc.digests`)."""

    def __init__(
        self, context: PassContext, routes: Sequence[RoutePlan], digests_by_writing: tuple[tuple[str, ...], ...]
    ) -> None:
        self.context = context
        self.repeated_tasks = False
        """Whether a task ran more than once, so that a loser's branch may exist."""
        self.sink_seconds: dict[str, dict[str, float]] = {}
        """Per sink, how long the slowest task took to "write", to "flush" and to "prepare"."""
        self.letters: LetterWork | None = None
        """How refused rows become dead letters, where the pass makes them."""
        self._routes = routes
        self._digests_by_writing = digests_by_writing

    # What a runtime does ---------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, work: EpochWork) -> list[PartitionReport]:
        """Feed and prepare every sink of `work`; one report for each partition. Tells `sink_seconds`."""

    @abstractmethod
    def mode_of(self, sink: Sink) -> Mode:
        """How the rows of a sink are written when they are."""

    def is_checked(self, sink: Sink) -> bool:
        """Whether the rows of a sink are checked one by one before they are reduced or written."""
        return False

    @abstractmethod
    def cut_by(self) -> int:
        """Into how many parts the rows are cut, for a replay that must find a branch."""

    @abstractmethod
    def cancel(self) -> None:
        """End the tasks of the pass."""

    def counts(self) -> Mapping[str, int]:
        """What only the runtime can count (rows that came too late, the size of the state), once the pass has run."""
        return {}

    def new_source_ids(self) -> Mapping[int, Mapping[str, str]]:
        """The ids of what this epoch is the first to read (`Manifest.source_ids`), once the pass has run."""
        return {}

    def require_few(self, letters: int, rows: int, told: Sequence[str]) -> None:
        """Raise `DataError` where so many dead letters of so many rows are too many; `told` are the first, in words."""

    def await_durable(self) -> None:
        """Return when what the epoch rests on, beside its branches, is durable."""

    @property
    def report(self) -> PassReport:
        """How the pass went; complete when it has ended."""
        return PassReport(self.sink_seconds, self.repeated_tasks)

    # The two ways to run ---------------------------------------------------------------------------------------

    def write(self, epoch: int, generation: int) -> Manifest:
        """Write and prepare every sink; what the epoch rests on is durable then too."""
        hints = self.context.hints()
        tasks = tuple(
            SinkTask(sink, self._routes_of(name), self.mode_of(sink), hints[name], is_checked=self.is_checked(sink))
            for name, sink in self.context.fed_sinks.items()
        )
        reports = self.run(self._work(epoch, generation, tasks, self.letters))
        self._require_few(reports)
        of_driver = self._of_driver(epoch, generation, reports, tasks, self.context.sinks)
        manifest = manifest_of(
            self.context,
            epoch,
            generation,
            reports,
            of_driver,
            runtime_counts=self.counts(),
            source_ids=self.new_source_ids(),
            parallelism=self.cut_by(),
            digest_kind=self.digest_kind,
        )
        self.await_durable()
        self.context.phases.end("durable")
        return manifest

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """Run the decided epoch again; write only what is lost."""
        refuse_other_kind(effect, self.digest_kind)
        refuse_ambiguous(effect, {route.sink for route in self._routes if not route.exact})
        lost = lost_digests(effect)
        hints = self.context.hints()
        fed_sinks = self.context.fed_sinks
        tasks = []
        for name, sink in fed_sinks.items():
            digests = lost.get(name)
            mode = Mode.DIGEST if digests is None else self.mode_of(sink)
            tasks.append(SinkTask(sink, self._routes_of(name), mode, hints[name], digests))
        letters = self._decided_letters(effect)
        reports = self.run(self._work(effect.epoch, effect.generation, tuple(tasks), letters))
        of_driver = self._of_driver(effect.epoch, effect.generation, reports, tasks, lost.keys())
        parts = parts_of(self.context, reports, of_driver)
        digests_of_sinks = {name: part.digest for name, part in parts.items()}
        if effect.manifest is not None:
            digests_of_sinks |= {n: part.digest for n, part in effect.manifest.sinks.items() if n not in fed_sinks}
        replaced = replacements(effect, parts)
        if len(replaced) < sum(len(part.branches) for part in parts.values()):
            self.repeated_tasks = True  # partitions of equal rows: the branches that are not needed are losers
        return Replayed(digests_of_sinks, replaced, self.digest_kind)

    def _routes_of(self, sink: str) -> tuple[RoutePlan, ...]:
        return tuple(route for route in self._routes if route.sink == sink)

    def _decided_letters(self, effect: ReplayEpoch) -> LetterWork | None:
        """Sinks are asked again in an epoch that was decided with dead letters; in another they have taken all rows."""
        if self.letters is None:
            return None
        manifest = effect.manifest
        part = None if manifest is None else manifest.sinks.get(self.letters.route.sink)
        has_some = part is not None and part.rows > 0
        return replace(self.letters, is_asked=has_some, may_ask=False)

    def _require_few(self, reports: Sequence[PartitionReport]) -> None:
        if (name := self.context.letters_sink) is not None:
            letters = sum(report.branches[name].rows for report in reports)
            told = [each for report in reports for each in report.refused][:TOLD]
            self.require_few(letters, sum(report.rows for report in reports), told)

    def _work(self, epoch: int, generation: int, tasks: tuple[SinkTask, ...], letters: LetterWork | None) -> EpochWork:
        context = self.context
        return EpochWork(
            context.pipeline,
            generation,
            epoch,
            tasks,
            self._digests_by_writing,
            context.unrouted_is_error,
            letters,
        )

    def _of_driver(
        self,
        epoch: int,
        generation: int,
        reports: Sequence[PartitionReport],
        tasks: Sequence[SinkTask],
        wanted: Collection[str],
    ) -> dict[str, Committable]:
        """The branches that the driver writes itself."""
        branches = DriverBranches(self.context, epoch, generation)
        made = branches.prepare(tasks, reports, wanted)
        for name, seconds in branches.seconds.items():
            times = self.sink_seconds.setdefault(name, {"write": 0.0, "flush": 0.0})
            times["prepare"] = round(times.get("prepare", 0.0) + seconds, 6)
        self.context.phases.end("gather")
        return made
