"""The mutants of the repository fit the code as it is, and their headers say what a reader needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chaos.prove.patches import patch
from tests.chaos.simulator import test_forgotten_markers
from tests.coordinator import test_checkpoint_lock
from tests.coordinator.log import test_journal
from tests.coordinator.loop import (
    test_cut_and_time,
    test_made_anew,
    test_missing_targets,
    test_reading_ahead,
    test_retired_sources,
)
from tests.coordinator.loop.changelog import test_lost_stores
from tests.coordinator.loop.state import test_compaction
from tests.coordinator.savepoints import test_folder
from tests.coordinator.spark import test_lineage
from tests.sinks.kafka import (
    test_completeness,
    test_handover,
    test_idle_polling,
    test_pending_markers,
    test_pruning,
    test_shown_markers,
    test_source,
)
from tests.sinks.mongo import test_transaction
from tests.tpc_support import test_deposed
from tpc.chaos.explorer.invariants import INVARIANTS
from tpc.chaos.prove.checks import CHECKS, checks_of
from tpc.chaos.prove.copies import CHECKOUT, MUTANTS, apply_patch, copied
from tpc.chaos.prove.mutant import RULES, Catch, Mutant, PatchError, read_mutants
from tpc.chaos.simulator.world import Invariant
from tpc.testing import SinkConformance
from tpc.testing.log_conformance import LogConformance

ALL = read_mutants(MUTANTS)
each_mutant = pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
NAMED = {
    "explorer": set(INVARIANTS),
    "simulator": {invariant.value for invariant in Invariant},
    "log kit": {name for name in dir(LogConformance) if name.startswith("test_")},
    "savepoint kit": {name for name in dir(test_folder) if name.startswith("test_")},
    "damaged end kit": {name for name in dir(test_forgotten_markers) if name.startswith("test_")},
    "journal kit": {name for name in dir(test_journal) if name.startswith("test_")},
    "takeover kit": {name for name in dir(test_deposed) if name.startswith("test_")},
    "checkpoint lock kit": {name for name in dir(test_checkpoint_lock) if name.startswith("test_")},
    "kafka source kit": {name for name in dir(test_source) if name.startswith("test_")},
    "kafka evidence kit": {name for name in dir(test_completeness) if name.startswith("test_")},
    "kafka markers kit": {name for name in dir(test_shown_markers) if name.startswith("test_")},
    "kafka pending kit": {name for name in dir(test_pending_markers) if name.startswith("test_")},
    "missing target kit": {name for name in dir(test_missing_targets) if name.startswith("test_")},
    "reading ahead kit": {name for name in dir(test_reading_ahead) if name.startswith("test_")},
    "made anew kit": {name for name in dir(test_made_anew) if name.startswith("test_")},
    "kafka polling kit": {name for name in dir(test_idle_polling) if name.startswith("test_")},
    "kafka handover kit": {name for name in dir(test_handover) if name.startswith("test_")},
    "kafka pruning kit": {name for name in dir(test_pruning) if name.startswith("test_")},
    "mongo transaction kit": {name for name in dir(test_transaction) if name.startswith("test_")},
    "lost state kit": {name for name in dir(test_lost_stores) if name.startswith("test_")},
    "event time kit": {name for name in dir(test_cut_and_time) if name.startswith("test_")},
    "sources kit": {name for name in dir(test_retired_sources) if name.startswith("test_")},
    "compaction kit": {name for name in dir(test_compaction) if name.startswith("test_")},
    "durability kit": {name for name in dir(test_lineage) if name.startswith("test_")},
}
OF_SINKS = {name for name in dir(SinkConformance) if name.startswith("test_")}


@each_mutant
def test_a_mutant_applies_and_compiles(mutant: Mutant, tmp_path: Path) -> None:
    for name in mutant.files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / name, tmp_path / name)
    apply_patch(mutant, tmp_path)
    assert all((tmp_path / name).read_text() != (CHECKOUT / name).read_text() for name in mutant.files)


@each_mutant
def test_a_header_names_rule_defect_and_who_notices_it(mutant: Mutant) -> None:
    assert mutant.rule in RULES
    assert mutant.name.startswith(f"{mutant.rule:02d}-")
    assert mutant.defect.endswith(".")
    assert mutant.expected is not None
    assert mutant.expected.check in [check.name for check in checks_of(mutant.files)]
    assert mutant.expected.invariant in NAMED.get(mutant.expected.check, OF_SINKS)


@each_mutant
def test_a_mutant_is_one_small_mistake(mutant: Mutant) -> None:
    changed = [line for line in mutant.text.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert 1 <= len(changed) <= 14
    assert len(mutant.files) <= 2


def test_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in ALL} == set(RULES)
    assert len(ALL) >= 28


def test_every_check_of_the_core_and_of_each_sink_notices_a_mutant() -> None:
    noticing = {mutant.expected.check for mutant in ALL if mutant.expected is not None}
    assert {check.name for check in CHECKS} - noticing == {"sql log kit", "object log kit"}


def test_a_catch_is_read_as_it_is_written() -> None:
    assert Catch.parse("files kit (test_a_b)") == Catch("files kit", "test_a_b")
    assert str(Catch("explorer", "intent-first")) == "explorer (intent-first)"
    assert Catch.parse("somebody") is None


def test_a_patch_of_the_checks_is_refused() -> None:
    mutant = Mutant(MUTANTS / "x.patch", "--- a/tpc/testing/commit.py\n+++ b/tpc/testing/commit.py\n", None, "", None)
    with pytest.raises(PatchError, match=r"tpc/testing/commit\.py"):
        apply_patch(mutant, MUTANTS)


def test_a_patch_that_does_not_fit_is_refused() -> None:
    text = "--- a/tpc/json.py\n+++ b/tpc/json.py\n@@ -1 +1 @@\n-nothing like this\n+something\n"
    with pytest.raises(PatchError, match="does not apply"), copied(Mutant(MUTANTS, text, None, "", None)):
        pass


def test_a_patch_that_is_no_python_is_refused(tmp_path: Path) -> None:
    mutant = patch(tmp_path, "coordinator/log/local.py", "class LocalLog(Log):", "class LocalLog(Log)")
    with pytest.raises(PatchError, match="no Python"), copied(mutant):
        pass


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("tpc/machine.py", ["explorer", "simulator"]),
        ("tpc/handles.py", ["explorer", "files kit", "simulator"]),
        ("coordinator/engine/loop.py", ["simulator"]),
        ("coordinator/log/local.py", ["log kit"]),
        ("sinks/mongo/apply.py", ["mongo kit"]),
        ("sinks/shared/owner_entry.py", ["files kit", "postgres kit", "mongo kit", "kafka kit"]),
    ],
)
def test_the_checks_that_run_the_changed_code_are_tried(file: str, names: list[str]) -> None:
    assert [check.name for check in checks_of([file])] == names


def test_a_copy_has_the_links_and_the_files_as_they_are() -> None:
    with copied() as copy:
        assert (copy / "tpc" / "sinks").is_symlink()
        assert (copy / "sinks" / "files" / "sink.py").read_text() == (
            CHECKOUT / "sinks" / "files" / "sink.py"
        ).read_text()
