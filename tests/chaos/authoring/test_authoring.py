"""`tpc sink new` and `tpc sink check`: a skeleton that is red at first; a sound sink is told what it keeps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import EXAMPLES
from tpc.chaos.authoring.check import FAILED, PASSED, SKIPPED, Checked, Tried, lines, run_kit
from tpc.chaos.authoring.cli import write_skeleton
from tpc.errors import ConfigurationError

pytestmark = pytest.mark.slow  # processes of their own

SOME_OF_THE_KIT = "prepare_returns or invisible or newest_commit or secret"


def tpc(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as an author types it beside the files."""
    command = [sys.executable, "-m", "tpc", "sink", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_the_skeleton_runs_red_and_says_what_to_write_first(tmp_path: Path) -> None:
    made = tpc(tmp_path, "new", "click_house")
    assert made.returncode == 0, made.stderr
    assert "tpc sink check test_click_house_sink:TestClickHouseSink" in made.stdout
    checked = tpc(tmp_path, "check", "test_click_house_sink:TestClickHouseSink", "-k", SOME_OF_THE_KIT)
    assert checked.returncode == 1
    told = re.search(r"NotImplementedError: check: make what the sink needs.*", checked.stdout)
    assert told is not None
    line = re.search(r"\(click_house_sink\.py, line (\d+)\)", told[0])
    assert line is not None, told[0]
    named = (tmp_path / "click_house_sink.py").read_text().splitlines()[int(line[1]) - 1]
    assert "raise NotImplementedError" in named, "the line is the author's, not the kit's"
    assert checked.stdout.rstrip().endswith("tests failed: do not use this sink.")


def test_a_sound_sink_passes_with_its_parts_told(tmp_path: Path) -> None:
    for name in ("sqlite_sink.py", "test_sqlite_sink.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    checked = tpc(tmp_path, "check", "test_sqlite_sink:TestSqliteSink", "-k", SOME_OF_THE_KIT, "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 tried; now test_" in checked.stderr, "a run that is ended by its limit of time has said how far it came"
    told = json.loads(checked.stdout)
    assert told["passed"] is True
    assert told["guarantee"] == "", "a part of the kit is no guarantee"
    assert {test["part"] for test in told["tests"]} >= {"Prepare", "Marker", "Secrecy"}
    assert {test["outcome"] for test in told["tests"]} == {PASSED, SKIPPED}


def test_each_test_is_told_when_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skeleton("orders", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[tuple[int, str]] = []
    checked = run_kit("test_orders_sink:TestOrdersSink", only=SOME_OF_THE_KIT, report=lambda *more: told.append(more))
    assert [number for number, _ in told] == list(range(len(checked.tried)))
    assert {test for _, test in told} == {tried.test for tried in checked.tried}


@pytest.mark.parametrize("target", ["nowhere:Kit", "json:dumps", "json"])
def test_what_is_no_kit_is_refused_by_name(tmp_path: Path, target: str) -> None:
    refused = tpc(tmp_path, "check", target)
    assert refused.returncode == 1
    assert repr(target) in refused.stderr


def test_tests_that_no_name_matches_are_no_pass(tmp_path: Path) -> None:
    write_skeleton("orders", tmp_path)
    refused = tpc(tmp_path, "check", "test_orders_sink:TestOrdersSink", "-k", "nothing_is_called_so")
    assert refused.returncode == 1
    assert "no test of test_orders_sink:TestOrdersSink was run" in refused.stderr


def test_a_name_that_python_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a module"):
        write_skeleton("Click-House", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_orders_sink.py").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"test_orders_sink\.py is there already"):
        write_skeleton("orders", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_orders_sink.py"]


def test_one_reason_is_told_once_with_the_number_of_its_tests() -> None:
    missing = [Tried("Commit", f"test_{number}", FAILED, "not written\n  To do: write it") for number in range(3)]
    told = list(
        lines(Checked("m:K", [*missing, Tried("Owner", "test_x", PASSED), Tried("Owner", "test_y", SKIPPED, "no")]))
    )
    assert told[:2] == ["Commit  3 failed", "Owner   1 passed, 1 skipped"]
    assert "\nFAILED test_0 and 2 more for the same reason" in told
    assert told.count("  not written") == 1
    assert "  1 x no" in told
    assert told[-1] == "3 tests failed: do not use this sink."


def test_only_the_whole_kit_ends_with_a_guarantee() -> None:
    passed = [Tried("Owner", "test_x", PASSED)]
    assert list(lines(Checked("m:K", passed, "it keeps all")))[-1].endswith("may rely on: it keeps all")
    assert list(lines(Checked("m:K", passed, only="x")))[-1] == (
        "1 test passed, of those that match 'x'. Run the whole kit before you use it."
    )


def test_a_kit_of_which_everything_was_skipped_does_not_pass() -> None:
    assert not Checked("m:K", [Tried("Owner", "test_y", SKIPPED, "no")]).passed
