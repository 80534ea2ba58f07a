"""The example of a table format: it passes the kit, and the public helpers keep it short."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.examples import EXAMPLES
from tests.docs.kit_runs import TIME_LIMIT_S, run_kit

SINK, KIT = EXAMPLES / "delta_sink.py", EXAMPLES / "test_delta_sink.py"
LINES_MAX = 150


@pytest.mark.slow
@pytest.mark.timeout(TIME_LIMIT_S)
def test_it_passes_the_whole_kit(tmp_path: Path) -> None:
    shutil.copy(SINK, tmp_path)
    shutil.copy(KIT, tmp_path)
    ran = run_kit(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\d+ passed, \d+ skipped in", ran.stdout, flags=re.MULTILINE), ran.stdout


def test_a_sink_on_a_table_format_is_short() -> None:
    code = [line for line in SINK.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(code) < LINES_MAX
