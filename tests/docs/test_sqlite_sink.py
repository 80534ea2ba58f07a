"""The how-to for authors of sinks holds: its code is the example, which passes the kit; the kit says what is quoted."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tpc.testing
from tests.docs.examples import DOCS, EXAMPLES

PAGE = DOCS / "how-to" / "write-a-sink.md"
SINK, KIT = EXAMPLES / "sqlite_sink.py", EXAMPLES / "test_sqlite_sink.py"
ONLY_ON_THE_PAGE = ("# For now.", "# In a pipeline.")
TIME_LIMIT_S = 180


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line.strip()]


def test_the_blocks_of_the_page_are_the_two_files_line_by_line() -> None:
    shown = [block for block in blocks("python") if not block.startswith(ONLY_ON_THE_PAGE)]
    assert lines(shown[0]) == lines(KIT.read_text())
    assert lines("".join(shown[1:])) == lines(SINK.read_text())


def test_the_kit_says_what_the_page_quotes() -> None:
    sources = Path(tpc.testing.__file__).parent.rglob("*.py")
    said = "".join(re.sub(r'"\s+"', "", path.read_text()) for path in sources)
    quoted = re.findall(r"^  (?:Contract|To do): (.*)$", "".join(blocks("text")), flags=re.MULTILINE)
    assert len(quoted) >= 6
    assert [sentence for sentence in quoted if sentence not in said] == []


def run_kit(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The kit on what lies in a directory, as an author runs it."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-c", "/dev/null", "--rootdir", ".", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)


@pytest.mark.timeout(TIME_LIMIT_S)
def test_the_example_passes_the_whole_kit_and_skips_what_the_page_says(tmp_path: Path) -> None:
    shutil.copy(SINK, tmp_path)
    shutil.copy(KIT, tmp_path)
    ran = run_kit(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\d\d passed, 5 skipped in", ran.stdout, flags=re.MULTILINE), ran.stdout
