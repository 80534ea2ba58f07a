"""Imports point one way: the rules of this project as data, each held by a test.

The rules are about packages and computed from the tree: a new module is under them without being named here. How they
are checked is in `tests/architecture/rules.py`, which is tested on made-up trees.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.imports import is_within, own_tree
from tests.architecture.rules import (
    circles,
    foreign,
    told,
    too_long,
    wrong_importers,
    wrong_places,
    wrong_rooms,
    wrong_tiers,
)

ROOT = Path(__file__).parents[2]
TREE = own_tree()
COMPOSITION_ROOTS = {"tpc", "tpc.__main__", "tpc.sources"}
OUTER = {"tpc.testing", "tpc.support", "tpc.sinks", "tpc.coordinator", "tpc.chaos"}


def members(package: str) -> set[str]:
    """The modules and packages that stand in `package` itself."""
    return {name for name in TREE.modules if name.rpartition(".")[0] == package}


CORE = members("tpc") - COMPOSITION_ROOTS - OUTER
SHARED = "tpc.sinks.shared"
AUTHORING = "tpc.sinks.authoring"
EFFECTS = "tpc.sinks.effects"
SINKS = (members("tpc.sinks") & TREE.packages()) - {SHARED, AUTHORING}

ROOMS: dict[str, set[str]] = {
    "tpc": {*CORE, *OUTER, SHARED, AUTHORING, *SINKS, "tpc.__main__", "tpc.sources"},
    "tpc.__main__": {*CORE, "tpc.support", "tpc.coordinator", "tpc.chaos", EFFECTS},
    "tpc.sources": {*CORE, "tpc.coordinator", "tpc.sinks.kafka", "tpc.sinks.postgres"},
    **{module: CORE - {module} for module in CORE},
    "tpc.testing": CORE,
    "tpc.support": CORE,
    SHARED: {*CORE, "tpc.support"},
    AUTHORING: {*CORE, "tpc.support", SHARED},
    **{sink: {*CORE, "tpc.support", SHARED, AUTHORING} for sink in SINKS},
    "tpc.sinks": SINKS,
    "tpc.coordinator": {*CORE, "tpc.support"},
    "tpc.chaos": {
        *CORE,
        "tpc",
        "tpc.sources",
        "tpc.support",
        "tpc.sinks",
        SHARED,
        AUTHORING,
        *SINKS,
        "tpc.coordinator",
        "tpc.testing",
    },
}
"""What each room may import of the others. Nobody imports the composition roots, which lead everywhere, but chaos."""

TIERS: dict[str, tuple[set[str], ...]] = {
    "tpc.sinks.kafka": (
        {"sink"},
        {"changelog"},
        {"offsets", "source"},
        {"driver"},
        {"check"},
        {"worker"},
        {"cluster"},
        {"transactional_sink", "connection_settings", "librdkafka", "kafka_python", "token_function"},
    ),
    "tpc.coordinator": ({"operations"}, {"spark", "service"}, {"kernel"}),
    "tpc.coordinator.kernel": ({"*"}, {"feeding"}, {"log"}),
    "tpc.coordinator.spark": (
        {
            "orderly_stop",
            "pipeline",
            "pipeline_description",
            "query",
            "read_topics",
            "sigterm",
            "sink_contexts",
            "source_lag",
        },
        {"passes"},
        {"*"},
    ),
    "tpc.chaos": (
        {"cli"},
        {"authoring"},
        {"programs"},
        {"user", "matrix", "demo"},
        {"kills", "runner", "flights", "reports", "faults", "proxy", "checkers"},
        {"servers", "running"},
        {"prove"},
        {"explorer", "simulator"},
    ),
}
"""Inside a package: each tier may import itself and those after it. `*` is what no other tier names."""

RUNTIMES = {"tpc.coordinator.spark", "tpc.coordinator.service"}
"""Each brings what `tpc.coordinator.kernel.runtime` asks for, and neither is made of the other."""

IMPORTED_ONLY_BY = {
    "tpc.testing": {"tpc.chaos.authoring", "tpc.chaos.prove"},
    "tpc.chaos.prove": set[str](),
    "tpc.chaos.explorer": {"tpc.chaos.prove"},
    "tpc.chaos.simulator": {"tpc.chaos.prove", "tpc.chaos.programs"},
}


DRIVERS: dict[str, set[str]] = {
    "pyspark": {"tpc.coordinator", "tpc.sinks.postgres.source", "tpc.chaos"},
    "py4j": {"tpc.coordinator", "tpc.chaos.servers"},
    "confluent_kafka": {"tpc.sinks.kafka", "tpc.chaos"},
    "kafka": {"tpc.sinks.kafka.cluster", "tpc.chaos.checkers"},
    "psycopg": {
        "tpc.sinks.postgres",
        "tpc.coordinator.kernel.log",
        "tpc.support",
        "tpc.chaos",
    },
    "pymongo": {"tpc.sinks.mongo", "tpc.chaos"},
    "bson": {"tpc.sinks.mongo", "tpc.chaos.proxy"},
    "sqlalchemy": {"tpc.coordinator.kernel.log"},
    "obstore": {"tpc.coordinator.kernel.log", "tpc.coordinator.operations.savepoints.remote"},
    "psutil": {"tpc.support", "tpc.chaos"},
}
"""What speaks to another system, or is Spark: the only places of the library that import it."""

OTHERS: dict[str, set[str]] = {
    "pyarrow": {
        "tpc.sink",
        "tpc.support",
        "tpc.testing",
        "tpc.sinks",
        "tpc.coordinator.spark.passes",
        "tpc.coordinator.kernel.feeding",
        "tpc.coordinator.service",
        "tpc.chaos",
    },
    "numpy": {SHARED, "tpc.coordinator.kernel.feeding", "tpc.coordinator.service", "tpc.chaos.flights"},
    "pandas": {"tpc.coordinator.service", "tpc.chaos.flights", "tpc.chaos.programs"},
    "tenacity": {"tpc.support", "tpc.sinks", "tpc.coordinator.kernel.log"},
    "typer": {"tpc.__main__", "tpc.coordinator", "tpc.chaos", EFFECTS},
    "rich": {"tpc.coordinator", "tpc.chaos"},
    "prometheus_client": {"tpc.coordinator"},
    "jinja2": {"tpc.chaos.reports", "tpc.coordinator.operations.page"},
    "cryptography": {"tpc.chaos.servers"},
    "filelock": {"tpc.chaos.servers"},
    "platformdirs": {"tpc.chaos.servers"},
    "hypothesis": {"tpc.testing"},
    "tomli": {"tpc.chaos.prove"},
    "pytest": {"tpc.testing", "tpc.chaos.prove", "tpc.chaos.authoring"},
}
"""The same for what is no driver."""

LIGHT = [
    "tpc",
    "tpc.__main__",
    "tpc.sources",
    "tpc.sinks",
    "tpc.coordinator",
    "tpc.coordinator.operations.commands.cli",
    "tpc.chaos.cli",
]
"""What a program imports before it has said which systems it wants; and every description of a sink."""
LIGHT += sorted(name for name in TREE.within("tpc.sinks") if name.endswith(".sink"))

LINES_MAX = 500
LONGER: dict[str, str] = {}
"""Modules of more than `LINES_MAX` lines, each with its reason."""

IMPURE = {
    "asyncio",
    "datetime",
    "multiprocessing",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}


def hold(wrong: list[str]) -> None:
    """Nothing is wrong; or all of it is told, each on a line."""
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_every_package_has_a_room() -> None:
    packages = members("tpc") & TREE.packages()
    assert packages - OUTER == set()
    assert {"tpc.testing", "tpc.sinks", "tpc.coordinator", "tpc.chaos"} <= packages


def test_imports_point_one_way_and_no_sink_knows_another() -> None:
    assert {"tpc.machine", "tpc.sink"} <= CORE
    assert len(SINKS) >= 4
    hold(wrong_rooms(TREE, ROOMS))


@pytest.mark.parametrize("package", TIERS)
def test_inside_a_package_imports_point_one_way(package: str) -> None:
    hold(wrong_tiers(TREE, package, TIERS[package]))


def test_no_runtime_knows_another() -> None:
    assert TREE.packages() >= RUNTIMES
    between = [(here, there) for here in RUNTIMES for there in RUNTIMES - {here}]
    hold(
        [
            told(TREE, at)
            for at in TREE.imports
            if any(is_within(at.importer, here) and is_within(at.imported, there) for here, there in between)
        ]
    )


def test_there_are_no_circles() -> None:
    hold(circles(TREE))


@pytest.mark.parametrize("package", IMPORTED_ONLY_BY)
def test_the_proof_is_imported_by_nobody_else(package: str) -> None:
    assert TREE.within(package)
    hold(wrong_importers(TREE, package, IMPORTED_ONLY_BY[package]))


def test_the_core_needs_the_standard_library_only() -> None:
    wrong = [
        told(TREE, at) for top, at in foreign(TREE) if at.importer in CORE and not (top == "pyarrow" and at.for_types)
    ]
    hold(wrong)


def test_the_conformance_kits_need_pytest_hypothesis_and_arrow_only() -> None:
    of_kits = [(top, at) for top, at in foreign(TREE) if is_within(at.importer, "tpc.testing")]
    assert of_kits
    hold([told(TREE, at) for top, at in of_kits if top not in {"pytest", "hypothesis", "pyarrow"}])


def test_the_core_has_no_clock_no_threads_no_randomness() -> None:
    wrong = [told(TREE, at) for at in TREE.imports if at.importer in CORE and at.imported.split(".")[0] in IMPURE]
    hold(wrong)


def test_other_people_s_packages_are_imported_only_where_they_are_needed() -> None:
    hold(wrong_places(TREE, DRIVERS | OTHERS))


@pytest.mark.parametrize("module", LIGHT)
def test_no_driver_is_loaded_before_it_is_used(module: str) -> None:
    code = f"import json, sys, {module}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert set(DRIVERS) & set(json.loads(done.stdout)) == set()


def test_no_module_is_too_long() -> None:
    long = too_long(TREE, LINES_MAX)
    hold([f"{name} has {lines} lines: split it" for name, lines in long.items() if name not in LONGER])
    hold([f"{name} is short enough now: delete it from LONGER" for name in sorted(LONGER.keys() - set(long))])


def test_every_module_of_chaos_stands_in_a_room() -> None:
    assert members("tpc.chaos") - TREE.packages() == {"tpc.chaos.cli"}
