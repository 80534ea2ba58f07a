"""The how-to for authors of sources holds: its code is the example, which passes the kit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, EXAMPLES
from tests.docs.kit_runs import TIME_LIMIT_S, run_kit
from tests.testing.broken_sources import BROKEN
from tpc.testing import SourceConformance

PAGE = (DOCS / "how-to" / "write-a-source.md").read_text()
SOURCE, KIT = EXAMPLES / "sqlite_source.py", EXAMPLES / "test_sqlite_source.py"


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


def test_the_blocks_of_the_page_are_the_two_files_line_by_line() -> None:
    first, *others = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert lines(first) == lines(KIT.read_text())
    assert lines("".join(others)) == lines(SOURCE.read_text())


@pytest.mark.slow
@pytest.mark.timeout(TIME_LIMIT_S)
def test_the_example_passes_the_kit_and_skips_what_the_page_says(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    shutil.copy(KIT, tmp_path)
    ran = run_kit(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\d+ passed, 12 skipped in", ran.stdout, flags=re.MULTILINE), ran.stdout


def test_the_page_has_each_test_of_the_kit_with_a_source_that_it_rejects() -> None:
    tests = {name for name in dir(SourceConformance) if name.startswith("test_")}
    assert set(re.findall(r"^\| `(test_\w+)`", PAGE, re.MULTILINE)) == tests
    rejecting = {broken.test for broken in BROKEN}
    assert sorted(tests - rejecting) == sorted(re.findall(r"^\| `(test_\w+)` \| [^|]* \| none \|", PAGE, re.MULTILINE))
