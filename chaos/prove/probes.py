"""Notes which statements of a copy of the code are executed, by whatever process, and until it is killed.

Each statement inside a function gets a probe before it: `__executed__[17] = 1`, a byte of a file that every process of
the copy has mapped. The source stays as it is, with its lines; what is changed is the compiled module beside it, which
Python loads without a look at the source. So it costs little, and a process that is killed has noted what it came to.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_EXECUTED = "__executed__"
_MODULE = "_tpc_executed"
_NOT_CHECKED_AGAINST_ITS_SOURCE = (1).to_bytes(4, "little") + bytes(8)
"""What a compiled module says of its source: see PEP 552."""

_MODULE_TEXT = f'''\
import mmap
from pathlib import Path


class Executed(mmap.mmap):
    """Functions of Spark are pickled with what they mention."""

    def __reduce__(self):
        return _mapped, ()


def _mapped():
    return {_EXECUTED}


with Path(__file__).with_suffix(".bin").open("r+b") as file:
    {_EXECUTED} = Executed(file.fileno(), 0)
'''

_BODIES = ("body", "orelse", "finalbody")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Probes:
    """The probes of a copy: the file and the line of the statement behind each of them."""

    copy: Path
    places: tuple[tuple[str, int], ...]

    def of(self, copy: Path) -> Probes:
        """The same probes in a copy of that copy, with nothing executed yet."""
        notes = copy / f"{_MODULE}.bin"
        notes.unlink(missing_ok=True)
        notes.write_bytes(bytes(len(self.places)))
        return Probes(copy, self.places)

    def executed(self) -> dict[str, list[int]]:
        """The lines on which executed statements begin, by module."""
        lines: dict[str, set[int]] = {}
        for (file, line), byte in zip(self.places, (self.copy / f"{_MODULE}.bin").read_bytes(), strict=True):
            if byte:
                lines.setdefault(file, set()).add(line)
        return {file: sorted(those) for file, those in lines.items()}


def instrument(copy: Path, files: Iterable[str]) -> Probes:
    """Compile these modules of a copy with probes."""
    places: list[tuple[str, int]] = []
    for file in files:
        path = copy / file
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for body in list(_bodies_in_functions(tree)):
            _probe_each(body, file, places)
        at = next((i for i, node in enumerate(tree.body) if not _comes_first(node)), len(tree.body))
        tree.body[at:at] = ast.parse(f"from {_MODULE} import {_EXECUTED}").body
        _write_compiled(path, compile(tree, str(path), "exec", dont_inherit=True))
    (copy / f"{_MODULE}.py").write_text(_MODULE_TEXT, encoding="utf-8")
    return Probes(copy, tuple(places)).of(copy)


def _write_compiled(path: Path, code: CodeType) -> None:
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.unlink(missing_ok=True)
    compiled.write_bytes(importlib.util.MAGIC_NUMBER + _NOT_CHECKED_AGAINST_ITS_SOURCE + marshal.dumps(code))


def _bodies_in_functions(node: ast.AST, within: bool = False) -> Iterator[list[ast.stmt]]:
    within = isinstance(node, _FUNCTIONS) or (within and not isinstance(node, ast.ClassDef))
    for name in _BODIES if within and isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) else ():
        if body := getattr(node, name, None):
            yield body
    for child in ast.iter_child_nodes(node):
        yield from _bodies_in_functions(child, within)


def _probe_each(body: list[ast.stmt], file: str, places: list[tuple[str, int]]) -> None:
    begin = 1 if _is_docstring(body[0]) else 0
    for at in range(len(body) - 1, begin - 1, -1):
        place = ast.Subscript(ast.Name(_EXECUTED, ast.Load()), ast.Constant(len(places)), ast.Store())
        probe = ast.copy_location(ast.Assign([place], ast.Constant(1)), body[at])
        places.append((file, body[at].lineno))
        body.insert(at, ast.fix_missing_locations(probe))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _comes_first(node: ast.stmt) -> bool:
    return _is_docstring(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
