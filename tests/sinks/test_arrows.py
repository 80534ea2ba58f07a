"""Imports among the sinks' modules: no circles, Kafka's layers one way, and a description loads no driver."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVERS = {"confluent_kafka", "kafka", "psycopg", "pymongo", "bson", "pyspark", "tenacity"}
DESCRIPTIONS = ["files.sink", "kafka.sink", "kafka.offsets.sink", "mongo.sink", "postgres.sink"]
KAFKA_LAYERS = ["descriptions", "cluster", "worker", "check", "driver", "offsets", "sink"]
KAFKA_DESCRIPTIONS = {"transactional_sink", "connection_settings", "librdkafka", "kafka_python"}


def name_of(path: Path) -> str:
    """A module's name below `tpc.sinks`."""
    return ".".join(path.relative_to(ROOT / "sinks").with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted((ROOT / "sinks").rglob("*.py"))}


def imports_in(node: ast.AST, *, in_functions: bool) -> Iterator[str]:
    """The modules of the sinks that are imported, for type checking too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("tpc.sinks."):
            module = str(child.module).removeprefix("tpc.sinks.")
            names = [f"{module}.{alias.name}" for alias in child.names]
            yield from [name for name in names if name in MODULES] or [module]
        if in_functions or not isinstance(child, ast.FunctionDef):
            yield from imports_in(child, in_functions=in_functions)


def imports_of(module: str) -> set[str]:
    """A description loads its writer and committer when it is asked for one: these two do not count."""
    tree = ast.parse(MODULES[module].read_text())
    return set(imports_in(tree, in_functions=not module.endswith("sink")))


def test_no_module_is_known_by_what_it_imports() -> None:
    graph = {module: imports_of(module) for module in MODULES if module != ""}
    assert sum(map(len, graph.values())) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def kafka_layer(module: str) -> int:
    """How high a module of the Kafka sinks stands."""
    _, first, *_ = module.split(".")
    return KAFKA_LAYERS.index("descriptions" if first in KAFKA_DESCRIPTIONS else first)


def test_the_layers_of_kafka_are_imported_one_way() -> None:
    of_kafka = [module for module in MODULES if module.startswith("kafka.")]
    wrong = [
        f"{module} imports {imported}"
        for module in of_kafka
        for imported in imports_of(module)
        if imported.startswith("kafka.") and kafka_layer(imported) > kafka_layer(module)
    ]
    assert len(of_kafka) > 30
    assert not wrong


@pytest.mark.parametrize("module", DESCRIPTIONS)
def test_a_description_loads_no_driver(module: str) -> None:
    program = f"import sys, tpc.sinks.{module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not DRIVERS.intersection(run.stdout.split())
