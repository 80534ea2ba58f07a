"""The mutants of the repository fit the code as it is, and their tables say what a reader needs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
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
from tpc.chaos.prove.copies import CHECKOUT, MUTANTS, copied, sources
from tpc.chaos.prove.mutant import RULES, Catch, Mutant, read_mutants, read_table
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
NAMED["sql log kit"] = NAMED["object log kit"] = NAMED["log kit"]
for check in CHECKS:
    if check.tests and "conformance" not in check.tests and check.name not in NAMED:
        tests = importlib.import_module(check.tests.removesuffix(".py").replace("/", "."))
        NAMED[check.name] = {name for name in dir(tests) if name.startswith("test_")}
OF_SINKS = {name for name in dir(SinkConformance) if name.startswith("test_")}


@each_mutant
def test_each_old_text_is_in_one_place_and_the_mutant_is_python(mutant: Mutant) -> None:
    changed = sources().changed(mutant)
    assert len(changed) <= 2
    assert all(text != sources().text(file) for file, text in changed.items())


@each_mutant
def test_an_entry_names_rule_defect_and_who_notices_it(mutant: Mutant) -> None:
    assert mutant.rule in RULES
    assert mutant.name.startswith(f"{mutant.rule:02d}-")
    assert mutant.defect.endswith(".")
    assert mutant.expected is not None
    assert mutant.expected.check in [check.name for check in checks_of(sources().files(mutant))]
    assert mutant.expected.invariant in NAMED.get(mutant.expected.check, OF_SINKS)


@each_mutant
def test_a_mutant_is_one_small_mistake(mutant: Mutant) -> None:
    assert sum(max(len(edit.old), len(edit.new)) for edit in mutant.edits) <= 12


@pytest.mark.parametrize("table", sorted(MUTANTS.glob("*.toml")), ids=lambda table: table.stem)
def test_a_table_is_in_the_order_of_its_names(table: Path) -> None:
    names = [mutant.name for mutant in read_table(table)]
    assert names == sorted(names)


def test_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in ALL} == set(RULES)
    assert len(ALL) >= 28


def test_every_check_of_the_core_and_of_each_sink_notices_a_mutant() -> None:
    noticing = {mutant.expected.check for mutant in ALL if mutant.expected is not None}
    assert {check.name for check in CHECKS} - noticing == set()


def test_a_catch_is_read_as_it_is_written() -> None:
    assert Catch.parse("files kit (test_a_b)") == Catch("files kit", "test_a_b")
    assert str(Catch("explorer", "intent-first")) == "explorer (intent-first)"
    assert Catch.parse("somebody") is None


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("tpc/machine.py", ["explorer", "simulator"]),
        ("tpc/handles.py", ["explorer", "files kit", "simulator"]),
        ("coordinator/engine/loop.py", ["waking kit", "simulator"]),
        ("coordinator/log/local.py", ["log kit", "power kit"]),
        ("sinks/mongo/apply.py", ["mongo progress kit", "mongo kit"]),
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


def test_a_copy_has_the_edits_of_its_mutant() -> None:
    with copied(edited("LocalLog._linked", "return target.read_bytes() == data", "return True")) as copy:
        assert "return True\n" in (copy / "coordinator" / "log" / "local.py").read_text()
