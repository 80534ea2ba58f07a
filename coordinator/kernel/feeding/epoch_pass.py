"""The pass over one epoch's data, whoever runs it: what is done with each sink, and the manifest of what is prepared.

How the rows come to the sinks is a subclass's (`run`): in tasks on other machines, or in the process itself. When a
pass runs is decided in the machine. This module knows neither it nor the engine: it is given values (`PassContext`),
and hands back a manifest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tpc.coordinator.kernel.feeding.branch import DIGEST_MODULUS, BranchReport, Mode, SinkTask, in_hexadecimal
from tpc.coordinator.kernel.feeding.context import PassContext, RoutePlan
from tpc.coordinator.kernel.feeding.dead_letter_limit import COUNT
from tpc.coordinator.kernel.feeding.driver_branches import DriverBranches
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionReport
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.feeding.refused_rows import TOLD, LetterWork
from tpc.digests import comparable, not_comparable
from tpc.effects import ReplayEpoch
from tpc.errors import DeterminismError
from tpc.events import Replayed
from tpc.manifest import Branch, Manifest, SinkPart
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
    def parallelism(self) -> int:
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

    def refuse_too_many(self, letters: int, rows: int, told: Sequence[str]) -> None:
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
            parallelism=self.parallelism(),
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
            self.refuse_too_many(letters, sum(report.rows for report in reports), told)

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


# What a pass came to, put together from its partitions: each sink's part of the manifest, counts and times.
#
# Writes nothing.


def manifest_of(
    context: PassContext,
    epoch: int,
    generation: int,
    reports: Sequence[PartitionReport],
    of_driver: Mapping[str, Committable],
    *,
    runtime_counts: Mapping[str, int],
    source_ids: Mapping[int, Mapping[str, str]],
    parallelism: int,
    digest_kind: str,
) -> Manifest:
    """The manifest of an epoch whose branches are all prepared; `of_driver` are those that the driver has written.

    The other values are what the pass says of itself (`EpochPass.counts`, `new_source_ids`, `parallelism`,
    `digest_kind`): the last two are for a replay that must find a branch.
    """
    counts = {
        "rows": sum(report.rows for report in reports),
        "unrouted": sum(report.unrouted for report in reports),
        "partitions": len(reports),
        "parallelism": parallelism,
    }
    if context.letters_sink is not None:
        counts[COUNT] = sum(report.branches[context.letters_sink].rows for report in reports)
    counts.update(runtime_counts)  # of a service "rows" are its events, however many rows were made of them
    parts = parts_of(context, reports, of_driver)
    return Manifest(context.pipeline, generation, epoch, context.epoch_input, parts, counts, digest_kind, source_ids)


def parts_of(
    context: PassContext, reports: Sequence[PartitionReport], of_driver: Mapping[str, Committable]
) -> dict[str, SinkPart]:
    """Per sink its rows, its digest and its branches."""
    parts = {}
    for name, sink in context.sinks.items():
        entries = [report.branches[name] for report in reports if name in report.branches]
        digest = in_hexadecimal(sum(entry.digest for entry in entries) % DIGEST_MODULUS)
        branches = _branches(entries)
        if name in of_driver:
            branches.append(Branch(of_driver[name], digest))
        parts[name] = SinkPart(
            kind=sink.kind,
            identity=context.identities[name],
            rows=sum(entry.rows for entry in entries),
            digest=digest,
            branches=tuple(branches),
            previous_epoch=context.previous_epochs[name],
            position_before=context.positions.get(name),
        )
    return parts


def _branches(entries: Sequence[BranchReport]) -> list[Branch]:
    return [
        Branch(entry.committable, in_hexadecimal(entry.digest)) for entry in entries if entry.committable is not None
    ]


def slowest(sink: str, reports: Sequence[PartitionReport]) -> dict[str, float]:
    """How long the slowest partition took for a sink, in seconds."""
    entries = [report.branches[sink] for report in reports]
    return {
        "write": round(max((entry.write_seconds for entry in entries), default=0.0), 6),
        "flush": round(max((entry.flush_seconds for entry in entries), default=0.0), 6),
        "prepare": round(max((entry.prepare_seconds for entry in entries), default=0.0), 6),
    }


# Which rows of a replay are written again: those of the lost branches, found by their digests.
#
# Plain data in, plain data out; who runs the data again is in `epoch_pass.py`.


def lost_digests(effect: ReplayEpoch) -> dict[str, frozenset[str]]:
    """Sink -> digests of the rows whose branches are lost."""
    if effect.manifest is None:
        return {}
    lost: dict[str, frozenset[str]] = {}
    for sink, branch in effect.manifest.branches():
        if str(branch.committable.handle) in effect.lost:
            lost[sink] = lost.get(sink, frozenset()) | {branch.digest}
    return lost


def refuse_other_kind(effect: ReplayEpoch, kind: str) -> None:
    """Raise `DigestKindError` when digests of `kind` cannot find the rows of a lost branch."""
    manifest = effect.manifest
    if manifest is not None and effect.lost and not comparable(manifest, kind):
        raise not_comparable(manifest, kind, lost=min(lost_digests(effect)))


def refuse_ambiguous(effect: ReplayEpoch, inexact: Collection[str]) -> None:
    """Raise `DeterminismError` when the rows of a lost branch cannot be told from those of one that is there.

    `inexact` are the sinks for which equal digests do not mean equal rows.
    """
    if effect.manifest is None:
        return
    lost = lost_digests(effect)
    for sink, branch in effect.manifest.branches():
        there = str(branch.committable.handle) not in effect.lost
        if there and sink in inexact and branch.digest in lost.get(sink, ()):
            raise DeterminismError(
                "a branch is lost, and its rows differ from those of another branch only in floats, which digests "
                "leave out: a replay cannot tell which of them to write again",
                pipeline=str(effect.manifest.pipeline),
                epoch=effect.epoch,
                sink=sink,
                remedy="where floats come out the same bit by bit, to(..., exact_floats=True) prevents this; for "
                "this epoch write the missing rows by hand, then "
                f"`tpc resolve CHECKPOINT --epoch {effect.epoch} --sink {sink} --mark-committed --reason ...`.",
            )


def replacements(effect: ReplayEpoch, parts: Mapping[str, SinkPart]) -> dict[str, Branch]:
    """The lost branches' handles with the branches of the same rows that were written again, each for one of them."""
    if effect.manifest is None:
        return {}
    made = {sink: list(part.branches) for sink, part in parts.items()}
    replaced: dict[str, Branch] = {}
    for sink, branch in effect.manifest.branches():
        handle = branch.committable.handle
        if str(handle) not in effect.lost:
            continue
        equal = [new for new in made[sink] if new.digest == branch.digest]
        # Of several with equal digests the partition of the same number, as far as a number says anything.
        equal.sort(key=lambda new: new.committable.handle.partition != handle.partition)
        if equal:
            made[sink].remove(equal[0])
            replaced[str(handle)] = equal[0]
    return replaced
