"""A repair makes an epoch whole: after lost branches are written again, each sink has each row as often as it was made.

The pass is the one that both runtimes have (`EpochPass`), on sinks in a directory; only its rows come from the test.
Between the pass and its replay changes what may: the partitions' numbers and the cuts into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from tests.core.builders import JOB
from tpc.coordinator.kernel.feeding.branch import Mode
from tpc.coordinator.kernel.feeding.context import PassContext, RoutePlan
from tpc.coordinator.kernel.feeding.epoch_pass import EpochPass
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed, PartitionReport
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import EpochInput, Manifest
from tpc.sink import CheckContext, Committable, Sink, Verdict
from tpc.testing.directory_sink import DirectorySink

SCHEMA = pa.schema([("id", pa.int64())])
NAMES = ("a", "b")
MEMORY_DISK = Path("/dev/shm")
"""Fsyncs take a busy disk a second each, and no test here needs them."""

Rows = Sequence[int]
Cuts = Sequence[Sequence[Rows]]
"""Per partition its batches."""
Lost = frozenset[tuple[str, int]]
"""Sink and partition of each branch that is lost."""


class FromMemory(EpochPass):
    """A pass over rows that a test has cut into partitions and batches: even ids go to sink b too."""

    digest_kind = "of a test"

    def __init__(self, context: PassContext, cuts: Cuts) -> None:
        routes = [RoutePlan(name, 0, f"digest_{name}", (("column_0_0", "id"),), exact=True) for name in NAMES]
        super().__init__(context, routes, (tuple(route.digest for route in routes),))
        self.cuts = cuts

    def run(self, work: EpochWork) -> list[PartitionReport]:
        return [
            PartitionFeed(work, number, attempt=number).run(batch(rows) for rows in batches)
            for number, batches in enumerate(self.cuts)
        ]

    def mode_of(self, sink: Sink) -> Mode:
        return Mode.WRITE

    def parallelism(self) -> int:
        return len(self.cuts)

    def cancel(self) -> None:
        """Nothing of it goes on."""


def batch(rows: Rows) -> pa.RecordBatch:
    """Rows as a runtime hands them on: with a digest for each sink that takes them."""
    digests = [[hashed(row) if name == "a" or row % 2 == 0 else None for row in rows] for name in NAMES]
    columns = [pa.array(values, pa.int64()) for values in (rows, *digests)]
    return pa.RecordBatch.from_arrays(columns, names=["column_0_0", "digest_a", "digest_b"])


def hashed(row: int) -> int:
    return int.from_bytes(blake2b(bytes([row]), digest_size=7).digest(), "big")


class Epoch:
    """One epoch of a pipeline with two sinks."""

    def __init__(self, root: Path) -> None:
        self.sinks = {name: DirectorySink(name, root / name) for name in NAMES}
        self.committers = {name: sink.committer(JOB) for name, sink in self.sinks.items()}
        for committer in self.committers.values():
            committer.check(CheckContext(JOB, SCHEMA, partitions=1))

    def pass_over(self, cuts: Cuts) -> FromMemory:
        identities = {name: committer.identity() for name, committer in self.committers.items()}
        epoch_input = EpochInput("", ("0",), ("1",))
        return FromMemory(
            PassContext(JOB, epoch_input, self.sinks, self.committers, identities, dict.fromkeys(NAMES)), cuts
        )

    def commit(self, committables: Iterable[Committable]) -> None:
        for committable in committables:
            (outcome,) = self.committers[committable.handle.sink].commit([committable])
            assert outcome.verdict is Verdict.COMMITTED, outcome

    def shown(self) -> dict[str, Counter[int]]:
        return {name: Counter(row["id"] for row in sink.rows()) for name, sink in self.sinks.items()}


def wanted(cuts: Cuts) -> dict[str, Counter[int]]:
    rows = [row for batches in cuts for rows in batches for row in rows]
    return {"a": Counter(rows), "b": Counter(row for row in rows if row % 2 == 0)}


def repaired(cuts: Cuts, again: Cuts, lost: Lost) -> tuple[Manifest, Replayed, Mapping[str, Counter[int]]]:
    """The epoch of `cuts` is decided, its `lost` branches go, and its rows come `again` in a replay."""
    with TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as directory:
        epoch = Epoch(Path(directory))
        manifest = epoch.pass_over(cuts).write(0, 1)
        made = [branch.committable for _, branch in manifest.branches()]
        gone = [one for one in made if (one.handle.sink, one.handle.partition) in lost]
        for one in gone:
            epoch.committers[one.handle.sink].abort([one])
        epoch.commit(one for one in made if one not in gone)
        effect = ReplayEpoch(0, 2, manifest, frozenset(str(one.handle) for one in gone))
        replayed = epoch.pass_over(again).replay(effect)
        replacements = {str(new.committable.handle): new.committable for new in replayed.replacements.values()}
        epoch.commit(replacements.values())
        return manifest, replayed, epoch.shown()


@st.composite
def epochs(draw: st.DrawFn) -> tuple[Cuts, Cuts, Lost]:
    """Few values, so that partitions of equal rows come up; a replay has them in another order and cut otherwise."""
    partitions = draw(st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=4))
    cuts = [draw(cut(rows)) for rows in partitions]
    again = [draw(cut(draw(st.permutations(rows)))) for rows in draw(st.permutations(partitions))]
    places = [(name, number) for name in NAMES for number in range(len(partitions))]
    return cuts, again, draw(st.frozensets(st.sampled_from(places)))


@st.composite
def cut(draw: st.DrawFn, rows: Rows) -> Sequence[Rows]:
    """The rows in batches, of which some may be empty."""
    ends = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    return [rows[start:end] for start, end in zip([0, *ends], [*ends, len(rows)], strict=True)]


@given(epochs())
@example(([[[1], [2, 3]]], [[[1], [2, 3]]], frozenset({("a", 0)})))
@example(([[[1]], [[1]]], [[[1]], [[1]]], frozenset({("a", 0), ("a", 1)})))
@example(([[[2]], [[4]]], [[[4]], [[2]]], frozenset({("a", 0), ("a", 1), ("b", 0)})))
@example(([[[1]], [[1]], [[]], [[]]], [[[]], [[]], [[1]], [[1]]], frozenset({("a", 0), ("a", 1)})))
@settings(max_examples=40, deadline=None)
def test_an_epoch_whose_lost_branches_were_written_again_has_each_row_as_often_as_it_was_made(
    case: tuple[Cuts, Cuts, Lost],
) -> None:
    cuts, again, lost = case
    manifest, replayed, shown = repaired(cuts, again, lost)
    event(f"{len(replayed.replacements)} replaced")
    assert shown == wanted(cuts)
    made = {(branch.committable.handle.sink, branch.committable.handle.partition) for _, branch in manifest.branches()}
    assert len(replayed.replacements) == len(lost & made)


@given(epochs())
@example(([[[1], [2, 3]]], [[[1], [2, 3]]], frozenset({("a", 0)})))
@settings(max_examples=15, deadline=None)
def test_a_replay_tells_the_rows_and_the_digests_of_the_pass_and_of_each_branch(case: tuple[Cuts, Cuts, Lost]) -> None:
    cuts, again, lost = case
    manifest, replayed, _ = repaired(cuts, again, lost)
    assert replayed.digests == {name: part.digest for name, part in manifest.sinks.items()}
    lost_branches = {str(branch.committable.handle): branch for _, branch in manifest.branches()}
    for handle, new in replayed.replacements.items():
        old = lost_branches[handle]
        assert (new.digest, new.committable.rows) == (old.digest, old.committable.rows)
