"""What Spark writes down of a variable that is handed to executors, and who says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tpc.coordinator.spark.secrets import REDACTION_REGEX


@pytest.mark.slow
def test_a_secret_handed_to_executors_is_in_the_event_log_unless_it_is_covered(tmp_path: Path) -> None:
    """A session of its own: the settings are those that Spark starts with."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.coordinator.spark.logged_secrets", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    without, covered = json.loads(done.stdout.splitlines()[-1])
    assert (without["names"], without["in_clear"]) == (True, True), "Spark no longer writes it down: say so in docs"
    (warning,) = without["heard"]
    assert "spark.executorEnv.PG_DSN" in warning
    assert f"spark.redaction.regex={REDACTION_REGEX}" in warning
    assert "LANG" not in warning
    assert "hunter2" not in warning
    assert covered == {"heard": [], "names": True, "in_clear": False, "file_in_clear": False}
    assert not without["file_in_clear"]


def test_the_documented_expression_is_the_one_that_is_advised() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"
    assert REDACTION_REGEX in page.read_text()
