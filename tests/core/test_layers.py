"""Imports point one way: the core knows nobody, sinks and coordinator know the core, nobody knows chaos."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPOSITION_ROOTS = {"__init__.py", "__main__.py"}
ALLOWED = {
    "tpc": {"tpc"},
    "testing": {"tpc", "tpc.testing"},
    "support": {"tpc", "tpc.support"},
    "sinks": {"tpc", "tpc.support", "tpc.sinks"},
    "coordinator": {"tpc", "tpc.support", "tpc.coordinator"},
    "chaos": {"tpc", "tpc.support", "tpc.sinks", "tpc.coordinator", "tpc.chaos"},
}


def imports(path: Path, *, type_checking: bool = True) -> Iterator[str]:
    """Modules that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def layer(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[1:2] and parts[1] in ALLOWED else parts[0]


def modules(folder: str) -> list[Path]:
    if folder in ("testing", "support"):
        return sorted((ROOT / "tpc" / folder).rglob("*.py"))
    found = sorted((ROOT / folder).rglob("*.py") if folder != "tpc" else (ROOT / folder).glob("*.py"))
    return [path for path in found if not (folder == "tpc" and path.name in COMPOSITION_ROOTS)]


@pytest.mark.parametrize("folder", ALLOWED)
def test_imports_point_one_way(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in modules(folder)
        for module in imports(path)
        if module.split(".")[0] == "tpc" and layer(module) not in ALLOWED[folder]
    ]
    assert modules(folder)
    assert not wrong


def test_the_core_needs_the_standard_library_only() -> None:
    wrong = [
        f"{path.name} imports {module}"
        for path in modules("tpc")
        for module in imports(path)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "tpc", "pyarrow"}
    ]
    assert not wrong


def test_the_conformance_kits_need_pytest_and_arrow_only() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in modules("testing")
        for module in imports(path)
        if module.split(".")[0] not in {*sys.stdlib_module_names, "tpc", "pyarrow", "pytest"}
    ]
    assert not wrong


def test_the_core_has_no_clock_no_threads_no_randomness() -> None:
    impure = {"time", "threading", "random", "socket", "subprocess", "asyncio", "uuid", "datetime"}
    wrong = [f"{path.name}: {module}" for path in modules("tpc") for module in imports(path) if module in impure]
    assert not wrong
