"""Targets of one system: two of them in one process, and targets whose names look like patterns or need quotes."""

from __future__ import annotations

from pathlib import Path

from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sink import Sink
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.requirements import Clause, require

PER_TARGET = (
    "let what is kept in a process, a connection or a listing, be found by all of the settings, the target among them."
)
AS_IT_IS = "quote the target in statements and escape it in patterns, or raise ConfigurationError for its name."
NAMES = ("t x", "t_x", "t.x", "t-x", "t%x", "t*", "t?", "[t]", "{t}", "t'x", 't"x', "t;x", "t~x", "T", "tä")
"""Of patterns and quotes each that systems have. A sink may refuse any of them."""


class TargetTests(KitTests):
    """A target is what its name says, and no other."""

    def test_two_targets_in_one_process_are_two(self, bench: Bench, tmp_path: Path) -> None:
        bench.needs("make_sink_on", "cannot_choose_target")
        pipelines = [bench.pipeline, PipelineId(f"{bench.pipeline.name}-2")]
        both = [Bench(self, tmp_path, sink=self.make_sink_on(tmp_path, target)) for target in ("one", "other")]
        try:
            shown: list[list[Branch]] = [[], []]
            for epoch in (0, 1):
                prepared = [
                    one.prepare(epoch, pipeline=pipeline) for one, pipeline in zip(both, pipelines, strict=True)
                ]
                for place in (1, 0):  # not in the order in which they were used last
                    committer = both[place].committer_of(pipeline=pipelines[place])
                    listed = both[place].listed(committer)
                    require(
                        listed == {prepared[place].resource},
                        f"Two pipelines write to a target each, with sinks of one name; one of them lists {listed}.",
                        Clause.LISTING,
                        PER_TARGET,
                    )
                    both[place].commit(prepared[place], committer=committer)
                    shown[place].append(prepared[place])
            for one, branches in zip(both, shown, strict=True):
                one.require_visible(
                    *branches, after="epochs on two targets in one process", clause=Clause.DATA, to_do=PER_TARGET
                )
        finally:
            for one in both:
                one.clean_up()

    def test_a_target_of_any_name_is_written_to_or_refused(self, bench: Bench, tmp_path: Path) -> None:
        bench.needs("make_sink_on", "cannot_choose_target")
        for number, name in enumerate(NAMES):
            pipeline = PipelineId(f"{bench.pipeline.name}-{number}")  # bookkeeping may be for all targets of a system
            sink = self._taken(bench, tmp_path, name)
            if sink is None:
                continue
            on_it = Bench(self, tmp_path, sink=sink)
            try:
                branch = on_it.prepare(pipeline=pipeline)
                committer = on_it.committer_of(pipeline=pipeline)
                listed = on_it.listed(committer)
                require(
                    listed == {branch.resource},
                    f"On the target {name!r} a branch is prepared, and these are listed: {listed}.",
                    Clause.LISTING,
                    AS_IT_IS,
                )
                on_it.commit(branch, committer=committer)
                after = f"a commit to the target {name!r}"
                on_it.require_visible(branch, after=after, clause=Clause.DATA, to_do=AS_IT_IS)
                on_it.require_nothing_left(after=after, clause=Clause.LISTING, to_do=AS_IT_IS)
            finally:
                on_it.clean_up()

    def _taken(self, bench: Bench, tmp_path: Path, target: str) -> Sink | None:
        """A sink on a target of this name; None where the sink, or its `check`, refuses it."""
        try:
            sink = self.make_sink_on(tmp_path, target)
        except ConfigurationError:
            return None
        return sink if bench.takes(sink) else None
