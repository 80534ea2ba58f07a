"""What `in_doubt` and `all_in_doubt` promise: complete, exact, and in time for branches that come late."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tpc.errors import TpcError
from tpc.handles import PipelineId
from tpc.sink import Limit, Marker, Owner
from tpc.testing.bench import Bench
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.readers import counted, some
from tpc.testing.requirements import Clause, require

CROWD = 50_000
"""How many things of others lie where branches lie: many pages of any listing."""

COMPLETE = (
    "ask the system for everything under the pipeline's delimited name prefix, page by page to the last one, and leave "
    "nothing out."
)
OUT_OF_DOUBT = "leave out what is committed or aborted, and remove what staged it."


class InDoubtTests(KitTests):
    """What recovery finds."""

    def test_a_fresh_target_has_nothing_in_doubt(self, bench: Bench) -> None:
        found = bench.in_doubt()
        require(not found, f"A fresh target lists {found}.", Clause.LISTING, COMPLETE)

    def test_in_doubt_lists_every_prepared_branch(self, bench: Bench) -> None:
        branches = [
            bench.prepare(epoch, partition, generation=generation)
            for generation, epoch, partition in ((1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 1, 0), (3, 2, 0))
        ]
        found = bench.in_doubt()
        missing = {branch.resource for branch in branches} - {doubt.resource for doubt in found}
        require(
            not missing,
            f"{len(missing)} of {len(branches)} prepared branches, of generations 1 to 3, are not listed: {missing}.",
            Clause.LISTING,
            COMPLETE,
        )
        by_resource = {branch.resource: branch.committable.handle for branch in branches}
        for doubt in found:
            handle = by_resource[doubt.resource]
            told = (doubt.pipeline, doubt.generation, doubt.sink, doubt.epoch)
            require(
                told[:3] == (handle.pipeline, handle.generation, handle.sink) and told[3] in (handle.epoch, None),
                f"The branch {handle} is listed as {told}.",
                Clause.LISTING,
                "put the handle, or its pipeline, generation and sink, into the name that the system lists.",
            )

    def test_in_doubt_is_complete_among_many_branches(self, bench: Bench) -> None:
        self.takes_long()
        if self.keyed:
            pytest.skip("keyed: an epoch is one branch, which the coordinator's process writes")
        other = PipelineId(f"other-{bench.pipeline.name}")
        bench.committer_of(pipeline=other)
        half = self.many_branches // 2
        theirs = [bench.prepare(0, number, rows=bench.rows(1), pipeline=other) for number in range(half)]
        ours = [bench.prepare(0, number, rows=bench.rows(1)) for number in range(self.many_branches - half)]
        self.require_listed(bench, {branch.resource for branch in ours}, f"among {half} branches of another pipeline")
        bench.sweep(bench.fresh_committer())
        bench.commit(*theirs, committer=bench.committer_of(pipeline=other))
        bench.require_visible(
            *theirs, after=f"a sweep of {len(ours)} branches beside these", clause=Clause.LISTING, to_do=COMPLETE
        )

    def test_in_doubt_is_complete_in_a_crowd(self, bench: Bench) -> None:
        self.takes_long()
        bench.needs("crowd", "cannot_crowd")
        branches = [bench.prepare(epoch, partition) for epoch in (0, 1) for partition in (0, 1)]
        shown = bench.committed(2)
        with self.crowd(bench.sink, CROWD):
            told = f"among {CROWD} things of others"
            self.require_listed(bench, {branch.resource for branch in branches}, told)
            marker = bench.fresh_committer().newest_marker()
            require(
                marker == Marker(2, shown.committable.handle),
                f"Epoch 2 was committed, and {told} the newest marker is {marker}.",
                Clause.MARKER,
                COMPLETE,
            )
            bench.sweep(bench.fresh_committer())
            self.require_listed(bench, set(), f"after a sweep {told}")
        bench.require_visible(shown, after="a sweep in a crowd", clause=Clause.LISTING, to_do=COMPLETE)
        bench.require_nothing_left(after="a sweep in a crowd", clause=Clause.LISTING, to_do=COMPLETE)

    def require_listed(self, bench: Bench, resources: set[str], when: str) -> None:
        """Exactly these are in doubt for a new committer."""
        listed = bench.listed(bench.fresh_committer())
        missing, extra = sorted(resources - listed), sorted(listed - resources)
        require(
            listed == resources,
            f"{len(resources)} branches are prepared, and {when} {len(missing)} of them are not listed: "
            f"{some(missing)}; {len(extra)} others are: {some(extra)}.",
            Clause.LISTING,
            COMPLETE,
        )

    def test_in_doubt_is_the_same_in_another_process(self, bench: Bench) -> None:
        branch = bench.prepare()
        sink = self.made_portable(bench)
        found = ask(sink, bench.pipeline, "in_doubt", deadline_s=self.deadline_s)
        require(
            branch.resource in {doubt.resource for doubt in found},
            "A prepared branch is in doubt for the process that wrote it, and not for another.",
            Clause.LISTING,
            "list what the system holds, not what this process remembers.",
        )

    def test_a_commit_takes_a_branch_out_of_doubt(self, bench: Bench) -> None:
        branch = bench.committed()
        bench.commit(branch)
        require(not bench.in_doubt(), "A committed branch is still in doubt.", Clause.LISTING, OUT_OF_DOUBT)

    def test_an_abort_takes_a_branch_out_of_doubt(self, bench: Bench) -> None:
        branch = bench.prepare()
        bench.abort(branch)
        require(not bench.in_doubt(), "An aborted branch is still in doubt.", Clause.LISTING, OUT_OF_DOUBT)

    def test_a_branch_prepared_after_a_sweep_is_in_doubt(self, bench: Bench) -> None:
        bench.prepare(0, generation=1)
        bench.sweep()
        bench.prepare(0, generation=2)
        late = bench.prepare(0, generation=1)
        require(
            late.resource in bench.listed(),
            "A branch that a task of an old generation prepared after the sweep is not listed.",
            Clause.LISTING,
            "list branches of every generation, and ask the system each time: tasks of a dead driver prepare late.",
        )
        bench.abort(late)
        require(
            late.resource not in bench.listed(),
            "A branch that was prepared late is still in doubt after its abort.",
            Clause.ABORT,
            "abort by the branch's resource, whatever generation it is of.",
        )

    def test_a_writer_that_was_open_during_a_sweep_leaves_nothing_beyond_the_next(self, bench: Bench) -> None:
        writer = bench.writer(bench.handle(0), expected=[TpcError])
        writer.write(bench.batch(bench.rows(3)))
        bench.sweep()
        with suppress(TpcError):  # its branch may be gone: then it cannot be prepared
            writer.prepare()
        bench.sweep()
        to_do = "refuse to prepare what was swept, or list it again."
        bench.require_visible(after="a sweep under an open writer", clause=Clause.INVISIBLE, to_do=to_do)
        bench.require_nothing_left(after="a late prepare and a second sweep", clause=Clause.LISTING, to_do=to_do)

    def test_branches_of_all_pipelines_are_listed_with_their_owners(self, bench: Bench) -> None:
        other = PipelineId(f"other-{bench.pipeline.name}")
        ours, theirs = bench.prepare(), bench.prepare(pipeline=other)
        owner = Owner(3, "nonce", 1_700_000_000.0)
        bench.committer_of(pipeline=other).take_ownership(owner, None)
        found = {doubt.resource: (doubt, of) for doubt, of in bench.committer.all_in_doubt()}
        if Limit.ORPHANS_NOT_LISTED in bench.sink.limits:
            require(
                theirs.resource not in found,
                "Limit.ORPHANS_NOT_LISTED is declared, and a branch of another pipeline is listed.",
                Clause.LIMITS,
                "take the limit back: `tpc orphans` would pass the sink over without need.",
            )
            return
        told = {name: found[name][1] if name in found else "not listed" for name in (ours.resource, theirs.resource)}
        require(
            told == {ours.resource: None, theirs.resource: owner},
            f"A pipeline without an owner entry and one with {owner} have a branch each; the owners told are {told}.",
            Clause.ORPHANS,
            "list all branches of this library, each with the owner entry of its own pipeline and incarnation, or "
            "declare Limit.ORPHANS_NOT_LISTED with the reason.",
        )
        doubt, handle = found[theirs.resource][0], theirs.committable.handle
        require(
            (doubt.pipeline, doubt.generation, doubt.sink) == (other, handle.generation, handle.sink)
            and doubt.epoch in (handle.epoch, None),
            f"The branch {handle} of another pipeline is listed as {doubt}.",
            Clause.ORPHANS,
            "take pipeline, generation, sink and epoch from the branch's own name.",
        )
        bench.abort(doubt)
        require(
            bench.listed() == {ours.resource},
            f"A branch of another pipeline was aborted, and of {ours.resource} the listing says {bench.listed()}.",
            Clause.ORPHANS,
            "abort the branches that are named, and no others.",
        )
        require(
            not bench.in_doubt(bench.committer_of(pipeline=other)),
            "`abort` did not undo a branch that `all_in_doubt` listed for another pipeline.",
            Clause.ORPHANS,
            "let `abort` go by the resource, whatever pipeline the committer is for.",
        )


# What a sweep rests on: nothing may be concluded from what is missing in a system.


class SweepTests(KitTests):
    """A sweep as a coordinator makes it: it asks for the newest marker first, and passes over what shows too little."""

    def test_a_sweep_without_the_bookkeeping_takes_nothing_committed(self, bench: Bench) -> None:
        bench.needs("forget_markers", "cannot_forget")
        bench.committed(1)
        bench.committed(2)
        self.forget_markers(bench.sink)
        before = counted(self.visible_rows(bench.sink))
        if not self.is_swept(bench, 2):
            return
        bench.sweep(bench.fresh_committer())
        after = counted(self.visible_rows(bench.sink))
        require(
            after == before,
            f"The sink has lost what tells its committed branches and shows them still; a sweep took "
            f"{(before - after).total()} of {before.total()} rows.",
            Clause.EVIDENCE,
            "list a branch as in doubt when the system holds it prepared, not because its marker is missing; or let "
            "`newest_marker` rest on the same entries, so that it shows what is lost.",
        )

    def is_swept(self, bench: Bench, expected: int) -> bool:
        """Whether a coordinator whose log says that this epoch is committed here would sweep the sink."""
        try:
            marker = bench.fresh_committer().newest_marker()
        except TpcError:
            return False
        if marker is None:
            return Limit.MARKERS_EXPIRE in bench.sink.limits
        return marker.epoch >= expected
