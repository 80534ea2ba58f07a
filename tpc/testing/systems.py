"""Which system it is: the same before and after a restart, another one beside it; what it removes by itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tpc.errors import TransientError
from tpc.sink import Committer, Limit, Owner
from tpc.testing.bench import Bench
from tpc.testing.branch import Branch
from tpc.testing.kit_tests import KitTests
from tpc.testing.readers import some
from tpc.testing.requirements import Clause, no_error, require

STORED = (
    "take the identity from what the system keeps on disk (a cluster id, a stored uuid), not from a process, an "
    "address or the time of a start."
)
PER_SINK = (
    "let every sink, writer and committer have its own client, made from its own settings; where clients are shared in "
    "a process, share them by all of the settings."
)
FOR_GOOD = (
    "let nothing of the sink's own expire: staged rows are kept until they are committed or aborted, markers until "
    "`released`; or declare Limit.MARKERS_EXPIRE (the newest marker, too) or Limit.OLD_MARKERS_EXPIRE."
)


class SystemTests(KitTests):
    """One system, or another."""

    def test_identity_is_the_same_after_an_outage(self, bench: Bench) -> None:
        before = bench.committer.identity()
        with bench.outage():
            pass
        with no_error("`identity` after an outage", Clause.CHECK, "connect again after an error."):
            after = {self.identity_of(bench, one) for one in (bench.committer, bench.fresh_committer())}
        require(
            after == {before}, f"Before an outage the identity is {before}, after it {after}.", Clause.CHECK, STORED
        )

    def identity_of(self, bench: Bench, committer: Committer) -> str:
        """Asked again once: a connection of before the outage may be used, and found to be closed."""
        with suppress(TransientError):
            return bench.settling.patiently(committer.identity)
        return committer.identity()

    def test_identity_is_the_same_after_a_power_cut(self, bench: Bench) -> None:
        bench.needs("power_cut", "cannot_cut_power")
        before = bench.committer.identity()
        with no_error("The hook `power_cut`", Clause.HOOKS, "cut the power, and bring the system back."):
            self.power_cut(bench.sink)
        bench.settling.begin()
        after = bench.settling.patiently(bench.fresh_committer().identity)
        require(
            after == before, f"Before a power cut the identity is {before}, after it {after}.", Clause.CHECK, STORED
        )

    def test_two_systems_in_one_process_are_two(self, bench: Bench, tmp_path: Path) -> None:
        bench.needs("make_sink_elsewhere", "cannot_make_another")
        there = Bench(self, tmp_path, sink=self.make_sink_elsewhere(tmp_path))
        try:
            self.require_apart(bench, there)
        finally:
            there.clean_up()

    def require_apart(self, bench: Bench, there: Bench) -> None:
        """Rows, branches, markers and owners of one are not those of the other."""
        both = (bench, there)
        identities = [one.committer.identity() for one in both]
        require(len(set(identities)) == 2, f"Two systems have the identities {identities}.", Clause.CHECK, STORED)
        shown: dict[Bench, list[Branch]] = {bench: [], there: []}
        for epoch in (0, 1):
            prepared = {one: one.prepare(epoch) for one in both}
            for one, branch in prepared.items():
                listed = one.listed()
                require(
                    listed == {branch.resource},
                    f"Two systems hold a branch each; {one.committer.identity()} lists {listed}.",
                    Clause.LISTING,
                    PER_SINK,
                )
            for one in reversed(both):  # not in the order in which they were used last
                one.commit(prepared[one])
                shown[one].append(prepared[one])
        for one in both:
            one.require_visible(
                *shown[one], after="epochs on two systems in one process", clause=Clause.DATA, to_do=PER_SINK
            )
        owner = Owner(1, "nonce", 1.0)
        taken, elsewhere = bench.committer.take_ownership(owner, None), there.committer.owner()
        require(
            taken and elsewhere is None,
            f"One system was taken by {owner}, and the other says that its owner is {elsewhere}.",
            Clause.OWNER,
            PER_SINK,
        )

    def test_what_the_system_removes_by_itself_is_declared(self, bench: Bench) -> None:
        bench.needs("expiring", "cannot_tell_expiry")
        bench.committed(0)
        bench.committed(1)
        bench.committer.take_ownership(Owner(1, "nonce", 1.0), None)
        declared = {Limit.MARKERS_EXPIRE, Limit.OLD_MARKERS_EXPIRE} & bench.sink.limits.keys()
        markers = list(self.expiring(bench.sink))
        require(
            bool(declared) or not markers,
            f"Of what stands for committed epochs the system will remove in time: {some(markers)}.",
            Clause.LIMITS,
            FOR_GOOD,
        )
        bench.prepare(2)
        staged = [each for each in self.expiring(bench.sink) if each not in markers]
        require(
            not staged,
            f"Of a prepared branch the system will remove in time: {some(staged)}.",
            Clause.DURABLE,
            FOR_GOOD,
        )
