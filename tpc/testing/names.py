"""Names that begin alike are different names: of pipelines, incarnations and sinks."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tpc.handles import Handle, PipelineId
from tpc.sink import Committer, Limit, Marker
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.requirements import Clause, no_error, require

DELIMIT = (
    "compare with `PipelineId.name_prefix`, which ends with the delimiter, or parse the handle and compare its fields; "
    "escape it where the system matches patterns."
)

ALIKE = {
    "job and job-2": ("{}", "{}-2"),
    "job and job.2": ("{}", "{}.2"),
    "a point is no pattern": ("{}.x", "{}yx"),
    "an underscore is no pattern": ("{}_x", "{}yx"),
}


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
        branches = {one: bench.prepare(pipeline=one), other: bench.prepare(pipeline=other)}
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

    def test_a_sink_whose_name_begins_alike_is_another(self, bench: Bench) -> None:
        longer = bench.other_sink(bench.sink.name + "b")
        ours, theirs = bench.prepare(), bench.prepare(sink=longer)
        for listing, own in ((bench.committer, ours), (bench.committer_of(longer), theirs)):
            named = {doubt.resource: doubt.sink for doubt in bench.in_doubt(listing)}
            right = {ours.resource: bench.sink.name, theirs.resource: longer.name}
            require(
                own.resource in named and all(right.get(resource) == sink for resource, sink in named.items()),
                f"Sinks {bench.sink.name} and {longer.name} have a branch each, listed as {named}.",
                Clause.NAMES,
                DELIMIT,
            )
        bench.commit(theirs, committer=bench.committer_of(longer))
        self.require_no_marker(bench.committer, f"sink {bench.sink.name} shows the marker of sink {longer.name}")
        bench.commit(ours)
        bench.require_visible(theirs, ours, after="commits of both sinks", clause=Clause.NAMES, to_do=DELIMIT)

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

    def require_no_marker(self, committer: Committer, wrong: str) -> None:
        """The committer shows no epoch."""
        marker = committer.newest_marker()
        require(marker is None, f"{wrong}: {marker}.", Clause.NAMES, DELIMIT)
