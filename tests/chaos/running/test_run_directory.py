"""A run's directory loses what an earlier run left in it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.chaos.running.run_directory import PIPELINE_LOG, RunDirectory
from tpc.errors import ConfigurationError


def test_what_an_earlier_run_left_goes(tmp_path: Path) -> None:
    (tmp_path / PIPELINE_LOG).write_text("old")
    (tmp_path / "servers" / "kafka").mkdir(parents=True)
    RunDirectory(tmp_path).claim()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_made(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "runs" / "first").claim()
    assert (tmp_path / "runs" / "first").is_dir()


def test_anything_else_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    (tmp_path / PIPELINE_LOG).write_text("old")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigurationError, match=r"thesis\.tex"):
        RunDirectory(tmp_path).claim()
    assert sorted(path.name for path in tmp_path.iterdir()) == [PIPELINE_LOG, "thesis.tex"]
