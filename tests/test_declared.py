"""Whatever the package imports is declared where it is imported: for everybody, or in an extra for those who ask."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.imports import own_tree
from tests.architecture.rules import foreign, room_of, told

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = PYPROJECT["project"]
TREE = own_tree()

DISTRIBUTIONS = {"bson": "pymongo", "kafka": "kafka-python", "py4j": "pyspark"}
"""What is imported under another name than that of the distribution that brings it."""

EXTRAS = {
    "tpc": [],
    "tpc.coordinator.kernel.log.object_store": ["object-store"],
    "tpc.coordinator.kernel.log.objects": ["object-store"],
    "tpc.coordinator.operations.savepoints.remote": ["object-store"],
    "tpc.coordinator.operations.monitoring.metrics": ["metrics"],
    "tpc.coordinator.operations.monitoring.metrics_server": ["metrics"],
    "tpc.coordinator.operations.page": ["ui"],
    "tpc.testing": ["testing"],
    "tpc.chaos": ["demo"],
    "tpc.chaos.user": ["chaos"],
    "tpc.chaos.running": ["chaos"],
    "tpc.chaos.reports": ["chaos"],
    "tpc.chaos.faults": ["chaos"],
    "tpc.chaos.checkers": ["chaos"],
    "tpc.chaos.prove": ["dev"],
    "tpc.chaos.authoring": ["demo", "testing"],
}
"""The extras without which what is in a package need not work."""


def required(lines: list[str]) -> Iterator[Requirement]:
    """What these lines of pyproject.toml ask for, those of its own extras included."""
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == DECLARED["name"]:
            for extra in sorted(requirement.extras):
                yield from required(extras()[extra])
        else:
            yield requirement


def extras() -> dict[str, list[str]]:
    found: dict[str, Any] = DECLARED["optional-dependencies"]
    return found


def names(*wanted: str) -> set[str]:
    """The distributions that an installation with these extras has."""
    lines = [*DECLARED["dependencies"], *(line for extra in wanted for line in extras()[extra])]
    return {canonicalize_name(requirement.name) for requirement in required(lines)}


def test_every_import_is_declared_where_it_is_imported() -> None:
    missing = []
    for top, at in foreign(TREE):
        wanted = EXTRAS[room_of(at.importer, EXTRAS) or "tpc"]
        if not at.for_types and canonicalize_name(DISTRIBUTIONS.get(top, top)) not in names(*wanted):
            missing.append(f"{told(TREE, at)}, which an installation with {wanted or 'no extra'} may lack")
    if missing:
        pytest.fail("\n".join(missing), pytrace=False)


def test_spark_comes_with_what_its_passes_over_arrow_batches_need() -> None:
    [spark] = [one for one in map(Requirement, DECLARED["dependencies"]) if one.name == "pyspark"]
    assert "sql" in spark.extras


@pytest.mark.parametrize("extra", [None, *extras()])
def test_every_requirement_has_a_lower_bound(extra: str | None) -> None:
    """The types of others are of no consequence to who runs the package."""
    lines = DECLARED["dependencies"] if extra is None else extras()[extra]
    unbounded = {one.name for one in required(lines) if all(each.operator != ">=" for each in one.specifier)}
    assert unbounded - {"pandas-stubs", "types-psutil"} == set()


def test_the_extra_for_faults_on_a_pipeline_of_ones_own_leaves_its_packages_as_they_are() -> None:
    """With the demo's bounds a test would run on another Spark than production does."""
    bounds = {one.name: str(one.specifier) for one in required(DECLARED["dependencies"])}
    wanted = list(required(extras()["chaos"]))
    assert {one.name for one in wanted} & bounds.keys() == set()
    assert {one.name: str(one.specifier) for one in wanted if "<" in str(one.specifier)} == {}


def test_what_runs_leave_in_a_clone_is_no_package() -> None:
    """Setuptools takes every folder that matches; one on a disk that a case has broken fails the installation."""
    patterns = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    left = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("tpc-")]
    assert left
    assert [name for name in left if any(fnmatchcase(name, pattern) for pattern in patterns)] == []
    assert any(fnmatchcase("tpc.sinks.kafka", pattern) for pattern in patterns)
