"""Every import of a package, read from its source without running it: who imports what, in which line."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Import:
    """One import, wherever it stands: at the top of a module, inside a function, or for the type checker only."""

    importer: str
    imported: str
    """A module: of `from a import b` it is `a.b` where the tree has such a module, and else `a`."""
    line: int
    for_types: bool
    """Whether it stands under `if TYPE_CHECKING`."""


@dataclass(frozen=True)
class Tree:
    """The modules of a package and what they import."""

    modules: dict[str, Path]
    """Dotted name -> file. A package's `__init__.py` has the package's name."""
    imports: tuple[Import, ...]

    def packages(self) -> set[str]:
        """The modules that hold others."""
        return {name for name, path in self.modules.items() if path.name == "__init__.py"}

    def within(self, package: str) -> set[str]:
        """The modules of `package`, itself included."""
        return {name for name in self.modules if is_within(name, package)}


def is_within(module: str, package: str) -> bool:
    """Whether `module` is `package` or is in it."""
    return module == package or module.startswith(f"{package}.")


def read_tree(root: Path, package: str = "tpc") -> Tree:
    """The tree of `package` in the directory `root`. Linked folders belong to it like others."""
    modules = dict(sorted(_modules(root, package)))
    imports = [found for name, path in modules.items() for found in _imports(name, path, set(modules))]
    return Tree(modules, tuple(imports))


@cache
def own_tree() -> Tree:
    """The tree of this repository, read once in a process: several files of tests need it to be collected."""
    return read_tree(ROOT)


def _modules(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    for folder, _, files in os.walk(root / package, followlinks=True):
        for file in files:
            path = Path(folder, file)
            if path.suffix == ".py":
                parts = path.relative_to(root).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imports(name: str, path: Path, modules: set[str]) -> Iterator[Import]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, for_types in _nodes(ast.parse(path.read_text()), for_types=False):
        for imported in _imported(node, package, modules):
            yield Import(name, imported, node.lineno, for_types)


def _nodes(node: ast.AST, *, for_types: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    """Every statement and expression, with whether it is seen by a type checker only."""
    for field, value in ast.iter_fields(node):
        inside = for_types or (field == "body" and isinstance(node, ast.If) and _is_for_types(node.test))
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.stmt, ast.expr)):
                yield child, inside
            if isinstance(child, ast.AST):
                yield from _nodes(child, for_types=inside)


def _is_for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _imported(node: ast.stmt | ast.expr, package: str, modules: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, package)
        names = [f"{base}.{alias.name}" for alias in node.names]
        yield from dict.fromkeys(name if name in modules else base for name in names)
    elif isinstance(node, ast.Call) and _called(node.func) in {"import_module", "__import__"}:
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
