"""A power cut at any act of the file sink: what was answered holds, and what was published is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sinks.files.test_commit import Branches
from tests.support.power_cuts import Cut, PowerCuts
from tpc.sink import Committable, GivenUp, Verdict
from tpc.sinks.files import committed_files

OLD, NEW = ["before"], ["a", "b"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerCuts]:
    root = tmp_path / "data"
    root.mkdir()
    with PowerCuts(root) as disk:
        yield disk


@pytest.fixture
def branches(disk: PowerCuts) -> Branches:
    """A sink that shows epoch 0."""
    branches = Branches(disk.root)
    branches.apply(OLD, 0)
    return branches


def prepared(branches: Branches) -> list[Committable]:
    return [branches.prepare([name], 1, partition=number) for number, name in enumerate(NEW)]


def shown(cut: Cut) -> list[str]:
    """What a reader finds after the cut; every file that a manifest names must be there and whole."""
    files = committed_files(str(cut.place))
    for file in files:
        assert Path(file.path).exists(), f"{cut}: a manifest names {file.path}, which is not there"
        assert Path(file.path).stat().st_size, f"{cut}: a manifest names {file.path}, which is empty"
        assert pq.ParquetFile(file.path).metadata.num_rows == file.rows, f"{cut}: {file.path} is not whole"
    return Branches(cut.place).read()


def test_a_commit_that_the_power_cuts_shows_all_or_nothing_and_is_finished_by_the_next(
    disk: PowerCuts, branches: Branches
) -> None:
    made = prepared(branches)
    for cut in disk.during(lambda: branches.commit(*made)):
        assert shown(cut) in (OLD, sorted([*OLD, *NEW])), str(cut)
        after = Branches(cut.place)
        verdicts = set(after.commit(*made))
        assert verdicts <= {Verdict.COMMITTED, Verdict.ALREADY}, f"{cut}: {after.outcomes(*made)}"
        assert shown(cut) == sorted([*OLD, *NEW]), str(cut)
    assert shown(cut) == sorted([*OLD, *NEW])


def test_what_was_committed_when_the_power_goes_is_shown(disk: PowerCuts, branches: Branches) -> None:
    made = prepared(branches)
    *_, synced, named = disk.during(lambda: branches.commit(*made))
    for cut in (synced, named):
        assert shown(cut) == sorted([*OLD, *NEW]), str(cut)
        assert Branches(cut.place).commit(*made) == [Verdict.ALREADY] * len(made)


def test_what_was_prepared_when_the_power_goes_can_be_committed(disk: PowerCuts, branches: Branches) -> None:
    made: list[Committable] = []
    *_, synced, named = disk.during(lambda: made.extend(prepared(branches)))
    for cut in (synced, named):
        assert shown(cut) == OLD, str(cut)
        assert Branches(cut.place).commit(*made) == [Verdict.COMMITTED] * len(made), str(cut)
        assert shown(cut) == sorted([*OLD, *NEW]), str(cut)


def test_a_prepare_that_the_power_cuts_is_seen_by_no_reader_and_swept(disk: PowerCuts, branches: Branches) -> None:
    for cut in disk.during(lambda: prepared(branches)):
        after = Branches(cut.place)
        assert shown(cut) == OLD, str(cut)
        after.committer.abort(after.committer.in_doubt())
        assert (after.in_doubt(), after.staged()) == ([], []), str(cut)
        assert shown(cut) == OLD, str(cut)


def test_what_was_given_up_when_the_power_goes_is_never_committed_afterwards(
    disk: PowerCuts, branches: Branches
) -> None:
    made, ends = prepared(branches), list[GivenUp]()
    cuts = list(disk.during(lambda: ends.extend(branches.committer.give_up(made))))
    assert ends == [GivenUp.UNDONE] * len(made)
    for cut in cuts:
        after = Branches(cut.place)
        if cut not in cuts[-2:]:  # it was not answered, so the operator asks again
            assert after.committer.give_up(made) == ends, str(cut)
        assert Verdict.COMMITTED not in after.commit(*made), str(cut)
        assert shown(cut) == OLD, str(cut)
