"""The check of what an intent rests on is red for every file that is torn."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.core.builders import manifest
from tests.support.spark_state import StateOnDisk
from tpc.chaos.checkers.rests_on import rests_on
from tpc.coordinator.spark.query_log import fingerprint
from tpc.manifest import Manifest

LAST = 3


@pytest.fixture
def newest(tmp_path: Path) -> Manifest:
    """Of a checkpoint in which everything is there."""
    state = StateOnDisk(tmp_path)
    for kind in ("offsets", "commits"):
        (tmp_path / kind).mkdir()
    for batch in range(LAST):
        state.run(batch)
        (tmp_path / "commits" / str(batch)).write_text(state.commit_text(batch))
    (tmp_path / "offsets" / str(LAST)).write_text("the plan")
    plain = manifest(LAST, stateful=True)
    base = fingerprint(state.commit_text(LAST - 1))
    end = (f'{{"logOffset":{LAST - 1}}}',)
    return replace(plain, epoch_input=replace(plain.epoch_input, offsets_file="the plan", base_commit=base, end=end))


def test_it_is_green_when_all_is_there_or_nothing_is_decided(tmp_path: Path, newest: Manifest) -> None:
    assert rests_on(tmp_path, newest).passed
    assert rests_on(tmp_path, None).passed


@pytest.mark.parametrize(
    "torn",
    [
        *("offsets/3", "commits/2", "sources/0/0", "sources/0/.2.crc"),
        *("state/0/0/1_id0-0.changelog", "state/0/1/3_id2-1.changelog", "state/0/1/.3_id2-1.changelog.crc"),
    ],
)
def test_it_is_red_for_any_file_that_is_torn(tmp_path: Path, newest: Manifest, torn: str) -> None:
    os.truncate(tmp_path / torn, 0)
    check = rests_on(tmp_path, newest)
    assert not check.passed
    assert len(check.differences) == 1
