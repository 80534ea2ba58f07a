"""The mutants of the repository fit the code as it is, and their tables say what a reader needs."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from tpc.chaos.explorer.invariants import INVARIANTS
from tpc.chaos.prove.checks import CHECKS, SIMULATOR, Check, check_named
from tpc.chaos.prove.copies import CHECKOUT, MUTANTS, sources
from tpc.chaos.prove.mutant import RULES, Catch, Mutant, read_mutants, read_table
from tpc.chaos.simulator.world import Invariant

pytestmark = pytest.mark.slow  # much computing

ALL = read_mutants(MUTANTS)
each_mutant = pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)


def invariants_of(check: Check) -> set[str]:
    """What a check can name: an invariant, or a test of the kit, those of the classes it is derived from included."""
    if check.name == SIMULATOR:
        return {invariant.value for invariant in Invariant}
    if not check.paths:
        return set(INVARIANTS)
    paths = [CHECKOUT / name for name in check.paths]
    files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))]
    modules = [import_module(".".join(file.relative_to(CHECKOUT).with_suffix("").parts)) for file in files]
    owners = [owner for module in modules for owner in [module, *filter(inspect.isclass, vars(module).values())]]
    return {name for owner in owners for name in dir(owner) if name.startswith("test_")}


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
    assert mutant.expected.invariant in invariants_of(check_named(mutant.expected.check))


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


NO_MUTANT_YET = {
    "changelog kit",
    "files places kit",
    "state access kit",
    "times of a service kit",
    *("supervisor kit", "table source kit", "shards kit", "standby kit", "service kit"),
    *("engine kit", "claims kit", "reconciling kit", "sqlite log kit", "local log kit", "object store kit"),
    *("files commits kit", "postgres commits kit", "mongo commits kit"),
    *("log moving kit", "log tail kit", "log disk kit", "durable files kit", "effects kit", "staging kit"),
    *("reports kit", "state rules kit", "cutting kit", "dead letters kit", "operators kit", "lost offsets kit"),
}
"""Checks that are tried on what they execute, and that no mutant names as the first to notice it."""


def test_every_check_notices_a_mutant() -> None:
    noticing = {mutant.expected.check for mutant in ALL if mutant.expected is not None}
    assert {check.name for check in CHECKS} - noticing == NO_MUTANT_YET


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_kit_is_there(check: Check) -> None:
    assert all((CHECKOUT / path).exists() for path in check.paths)


def test_a_catch_is_read_as_it_is_written() -> None:
    assert Catch.parse("files kit (test_a_b)") == Catch("files kit", "test_a_b")
    assert str(Catch("explorer", "intent-first")) == "explorer (intent-first)"
    assert Catch.parse("somebody") is None
