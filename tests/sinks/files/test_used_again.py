"""A pipeline's name that is used again after its bookkeeping was removed, in a directory that keeps the old files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sinks.files.test_commit import Branches
from tpc.errors import ConfigurationError
from tpc.sink import Verdict


def test_a_file_of_an_earlier_run_is_not_replaced(tmp_path: Path) -> None:
    first = Branches(tmp_path)
    (outcome,) = first.committer.commit([first.prepare(["a", "b"], 0)])
    assert outcome.verdict is Verdict.COMMITTED
    shutil.rmtree(tmp_path / "_tpc")
    second = Branches(tmp_path)
    writer = None
    with pytest.raises(ConfigurationError, match="earlier run") as refused:
        writer = second.write(["c"], 0)
    assert "incarnation" in (refused.value.remedy or "")
    assert writer is None
    (kept,) = tmp_path.glob("*.parquet")
    assert pq.read_table(kept)["id"].to_pylist() == ["a", "b"]
    assert list(second.staging.glob("*")) == []
