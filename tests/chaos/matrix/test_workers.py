"""Test benches side by side: what happens to a run whose workers cannot work."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from tpc.chaos.matrix.cases.cell_cases import matrix
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.matrix.workers import run_cases
from tpc.errors import LocalStackError


@pytest.mark.slow
def test_a_bench_that_cannot_be_had_ends_the_run_with_its_reason_and_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    records: list[CaseRecord] = []
    with pytest.raises(LocalStackError, match="Java"):
        run_cases(matrix()[:2], tmp_path / "run", 1, workers=2, on_case=records.append)
    assert not records
    assert not multiprocessing.active_children()
