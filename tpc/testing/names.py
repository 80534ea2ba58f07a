"""Names that begin alike are different names: of pipelines, incarnations and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from tpc.handles import DRIVER_PARTITION, MAX_NAME_LENGTH, Handle, PipelineId
from tpc.sink import Committer, Limit, Marker, Sink
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import told
from tpc.testing.requirements import Clause, no_error, require

DELIMIT = (
    "compare with `PipelineId.name_prefix`, which ends with the delimiter, or parse the handle and compare its fields; "
    "escape it where the system matches patterns."
)

FULL = f"{{:x<{MAX_NAME_LENGTH - 1}}}"
"""Fills a name up to the longest that is allowed, but for one character."""

ALIKE = {
    "job and job-2": ("{}", "{}-2"),
    "job and job.2": ("{}", "{}.2"),
    "job and job_2": ("{}", "{}_2"),
    "the longest names, different at the end": (f"{FULL}1", f"{FULL}2"),
    "small letters and capitals": ("{}.job", "{}.Job"),
    "a point is no pattern": ("{}.x", "{}yx"),
    "an underscore is no pattern": ("{}_x", "{}yx"),
}
"""Pairs of names of pipelines."""

SINKS = {
    "a and ab": ("a", "ab"),
    "a and a-1": ("a", "a-1"),
    "the longest names, different at the end": (FULL.format("a") + "1", FULL.format("a") + "2"),
    "small letters and capitals": ("sink", "Sink"),
}
"""Pairs of names of sinks on one target."""

BESIDE = ("another pipeline", "another incarnation", "another sink")
"""Whose markers lie beside those of the sink under test, on one target."""

OWN_MARKERS = (
    "remove older markers of this pipeline, incarnation and sink only: compare all of the three in the statement that "
    "removes."
)

LARGEST: Mapping[str, Any] = {"generation": 2**31 - 1, "epoch": 2**53 - 1, "partition": 99_999, "attempt": 2**53 - 1}
"""Numbers as large as anybody will see them."""


def look_alikes(handle: Handle) -> list[str]:
    """Names that begin as the handle of a branch does, and are none."""
    prefix = handle.pipeline.prefix
    return [f"{handle}.tmp", f"{handle}~1", f"{prefix}{handle.generation}", f"{prefix}notes"]


class NamesTests(KitTests):
    """One pipeline, incarnation or sink is never taken for another."""

    @pytest.mark.parametrize("names", ALIKE.values(), ids=ALIKE)
    def test_a_pipeline_whose_name_looks_alike_is_another(self, bench: Bench, names: tuple[str, str]) -> None:
        one, other = (PipelineId(name.format(bench.pipeline.name)) for name in names)
        of_one, of_other = bench.committer_of(pipeline=one), bench.committer_of(pipeline=other)
        handle = bench.handle(0)
        branches = {each: self.prepared_as(bench, replace(handle, pipeline=each)) for each in (one, other)}
        for pipeline, committer in ((one, of_one), (other, of_other)):
            require(
                bench.listed(committer) == {branches[pipeline].resource},
                f"Pipelines {one.name} and {other.name} have a branch each; {pipeline.name} lists "
                f"{sorted(bench.listed(committer))}.",
                Clause.NAMES,
                DELIMIT,
            )
        bench.sweep(of_one)
        bench.commit(branches[other], committer=of_other)
        bench.require_visible(branches[other], after=f"a sweep by {one.name}", clause=Clause.NAMES, to_do=DELIMIT)
        self.require_no_marker(of_one, f"{one.name} shows the marker of {other.name}")
        outcomes = bench.outcomes(branches[one], committer=of_one)
        require(
            not outcomes[0].settled,
            f"The branch of {one.name} was swept, and that of {other.name} committed; a commit of the former answers "
            f"{told(outcomes)}.",
            Clause.NAMES,
            DELIMIT,
        )

    def test_incarnations_1_and_11_are_different(self, bench: Bench) -> None:
        first, eleventh = bench.pipeline, PipelineId(bench.pipeline.name, 11)
        branch = bench.prepare(pipeline=eleventh)
        bench.committer_of(pipeline=eleventh)
        listed = {doubt.resource: doubt.pipeline for doubt in bench.in_doubt()}
        require(
            listed == {branch.resource: eleventh},
            f"A branch of incarnation 11 is listed as {listed}.",
            Clause.LISTING,
            "list branches of every incarnation of the name, each with its own: older leftovers are swept too.",
        )
        bench.commit(branch, committer=bench.committer_of(pipeline=eleventh))
        self.require_no_marker(bench.committer, f"incarnation {first.incarnation} shows the marker of incarnation 11")

    @pytest.mark.parametrize("names", SINKS.values(), ids=SINKS)
    def test_a_sink_whose_name_looks_alike_is_another(self, bench: Bench, names: tuple[str, str]) -> None:
        sinks = [bench.other_sink(name) for name in names]
        committers = [bench.committer_of(sink) for sink in sinks]
        handle = bench.handle(0)
        branches = [self.prepared_as(bench, replace(handle, sink=sink.name), sink) for sink in sinks]
        right = {branch.resource: sink.name for branch, sink in zip(branches, sinks, strict=True)}
        for committer, own in zip(committers, branches, strict=True):
            listed = {doubt.resource: doubt.sink for doubt in bench.in_doubt(committer)}
            require(
                own.resource in listed and all(right.get(resource) == sink for resource, sink in listed.items()),
                f"Sinks {names[0]} and {names[1]} have a branch each, listed as {listed}.",
                Clause.NAMES,
                DELIMIT,
            )
        bench.commit(branches[1], committer=committers[1])
        self.require_no_marker(committers[0], f"sink {names[0]} shows the marker of sink {names[1]}")
        bench.commit(branches[0], committer=committers[0])
        both = "commits of both sinks"
        bench.require_visible(*reversed(branches), after=both, clause=Clause.NAMES, to_do=DELIMIT)
        for branch, committer in zip(branches, committers, strict=True):
            bench.commit(branch, committer=committer)
        again = f"{both}, each made twice"
        bench.require_visible(*reversed(branches), after=again, clause=Clause.NAMES, to_do=DELIMIT)

    @pytest.mark.parametrize("beside", BESIDE)
    def test_what_is_released_is_of_one_sink_of_one_pipeline(self, bench: Bench, beside: str) -> None:
        pipeline, sink = bench.pipeline, bench.sink
        if beside == "another sink":
            sink = bench.other_sink("b")
        elif beside == "another incarnation":
            pipeline = PipelineId(pipeline.name, 11)
        else:
            pipeline = PipelineId(f"{pipeline.name}-2")
        theirs = bench.committer_of(sink, pipeline)
        kept = bench.committed(1, sink=sink, pipeline=pipeline)
        prepared = bench.prepare(2, sink=sink, pipeline=pipeline)
        ours = [bench.committed(epoch) for epoch in (5, 6, 7)]
        for branch in ours:
            epoch = branch.committable.handle.epoch
            bench.committer.released([branch.committable], epoch)
            bench.committer.completed(epoch)
        ours.append(bench.committed(8))  # what is released may be removed with the next epoch only
        shown = theirs.newest_marker()
        require(
            shown == Marker(1, kept.committable.handle),
            f"Epochs 5 to 7 were released, and the newest marker of {beside}, which has committed epoch 1, is {shown}.",
            Clause.REUSE,
            OWN_MARKERS,
        )
        bench.commit(kept, committer=theirs)
        bench.commit(prepared, committer=theirs)
        bench.require_visible(
            *(kept, *ours, prepared),
            after=f"a release of epochs 5 to 7, and commits of {beside}",
            clause=Clause.REUSE,
            to_do=OWN_MARKERS,
        )

    def test_a_handle_of_the_longest_names_and_largest_numbers_is_taken_whole(self, bench: Bench) -> None:
        pipeline = PipelineId(FULL.format(bench.pipeline.name) + "1")
        sink = bench.other_sink(FULL.format("a") + "1")
        committer = bench.committer_of(sink, pipeline)
        branches = []
        for last in (0, 1):  # two attempts, different at the very end
            handle = replace(bench.handle(0, pipeline=pipeline, sink=sink), **LARGEST)
            partition = DRIVER_PARTITION if self.keyed else handle.partition
            handle = replace(handle, attempt=handle.attempt - last, partition=partition)
            branches.append(bench.prepared_by(bench.writer(handle, sink), bench.rows(3)))
        shown, gone = branches
        to_do = "shorten names by a digest of the whole handle where the system's names are too short; never cut them."
        require(
            bench.listed(committer) == {branch.resource for branch in branches},
            f"Two branches of long names are prepared; {sorted(bench.listed(committer))} is listed.",
            Clause.NAMES,
            to_do,
        )
        bench.abort(gone, committer=committer)
        bench.commit(shown, committer=committer)
        bench.require_visible(shown, after="an abort of the other attempt", clause=Clause.NAMES, to_do=to_do)
        marker = committer.newest_marker()
        require(
            marker == Marker(shown.committable.handle.epoch, shown.committable.handle),
            f"After the commit of {shown.committable.handle} the newest marker is {marker}.",
            Clause.MARKER,
            to_do,
        )

    def test_names_that_only_look_like_ours_are_left_alone(self, bench: Bench) -> None:
        bench.needs("look_alike", "cannot_plant")
        before, branch = bench.committed(0), bench.prepare(1)
        to_do = "parse every name with `Handle.parse`, and pass over what raises CorruptionError: it is not ours."
        with ExitStack() as planted:
            for name in look_alikes(branch.committable.handle):
                planted.enter_context(self.look_alike(bench.sink, name))
            committer = bench.fresh_committer()
            with no_error("A question beside names that look like ours", Clause.NAMES, to_do):
                listed, marker = {doubt.resource for doubt in committer.in_doubt()}, committer.newest_marker()
                everywhere = {doubt.resource for doubt, _ in committer.all_in_doubt()}
            orphans = Limit.ORPHANS_NOT_LISTED not in bench.sink.limits
            require(
                listed == {branch.resource} and (everywhere == listed or not orphans),
                f"Beside {branch.resource} lie names that look like it; listed are {sorted(listed | everywhere)}.",
                Clause.NAMES,
                to_do,
            )
            require(
                marker == Marker(0, before.committable.handle),
                f"Beside names that look like ours the newest marker is {marker}.",
                Clause.NAMES,
                to_do,
            )
            bench.commit(branch, committer=committer)
            bench.sweep(committer)
        bench.require_visible(before, branch, after="a sweep beside such names", clause=Clause.NAMES, to_do=to_do)

    def prepared_as(self, bench: Bench, handle: Handle, sink: Sink | None = None) -> Branch:
        """A prepared branch of this handle: of two that look alike, nothing else tells them apart."""
        return bench.prepared_by(bench.writer(handle, sink), bench.rows(3))

    def require_no_marker(self, committer: Committer, wrong: str) -> None:
        """The committer shows no epoch."""
        marker = committer.newest_marker()
        require(marker is None, f"{wrong}: {marker}.", Clause.NAMES, DELIMIT)
