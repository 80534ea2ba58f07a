"""Copies of the checkout in temporary directories: with the edits of a mutant, with probes, or as it is.

The checkout is read once, so that whoever goes on working in it changes nothing of a proof; what is compiled of it is
compiled once. A copy is made of hard links to that, in which only whole files are replaced; whoever writes into one of
them changes it in every copy, and ends the proof.
"""

from __future__ import annotations

import ast
import atexit
import compileall
import hashlib
import importlib.metadata
import importlib.util
import marshal
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from types import CodeType
from typing import TypeVar

import tpc
from tpc.chaos.prove.anchors import ROOMS, Sources
from tpc.chaos.prove.mutant import Mutant

CHECKOUT = Path(tpc.__file__).resolve().parents[1]
MUTANTS = CHECKOUT / "tests" / "mutants"
_COPIED = (*ROOMS, "chaos", "tests", "docs/examples", "pyproject.toml")
_NO_PART_OF_THE_CODE = ("*.egg-info", ".hypothesis", "mutants")

Result = TypeVar("Result")


class SharedFileError(Exception):
    """A check, or a mutant in it, has written into a file that copies share: what any of them has found is in doubt."""


def _once(function: Callable[[], Result]) -> Callable[[], Result]:
    """Call it when it is first asked for, and not twice when two threads ask at one time."""
    lock, kept = Lock(), cache(function)

    def call() -> Result:
        with lock:
            return kept()

    return call


@contextmanager
def copied(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of the checkout, with the mutant's edits. Raises `MutantError` when they do not fit or do not compile."""
    changed = {} if mutant is None else sources().changed(mutant)
    with _linked(_snapshot()) as copy:
        for file, text in changed.items():
            replace_file(copy / file, text)
        yield copy


@contextmanager
def probed() -> Iterator[tuple[Path, Probes]]:
    """A copy of the checkout that notes what is executed of it."""
    probes = _probed_snapshot()
    with _linked(probes.copy) as copy:
        yield copy, probes.of(copy)


@_once
def sources() -> Sources:
    """The modules of the checkout that mutants may change."""
    return Sources(_snapshot())


@_once
def fingerprint() -> str:
    """Of all that is copied, and of the packages that are installed: with another one a check is run again."""
    installed = sorted(f"{each.name} {each.version}" for each in importlib.metadata.distributions())
    digest = hashlib.sha256("\n".join([sys.version, *installed]).encode())
    for path in sorted(_snapshot().rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"\n{path.relative_to(_snapshot())}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def replace_file(path: Path, text: str) -> None:
    """Put a text in the place of a module. What other copies are linked to stays as it is."""
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
    path.unlink()
    path.write_text(text, encoding="utf-8")


@contextmanager
def _linked(base: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tpc-prove-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o711)  # tests put their files beside the copy, and some act as other users there
        copy, before = Path(place) / "checkout", _written(base)
        shutil.copytree(base, copy, symlinks=True, copy_function=os.link)
        yield copy
        if changed := sorted(_written(base).items() ^ before.items()):
            raise SharedFileError(
                f"{changed[0][0]} was written into in a copy, and so in all others: run the proof again"
            )


def _written(base: Path) -> dict[str, tuple[int, int]]:
    """When each file was last written into, and its size; links to it change neither."""
    paths = (path for path in base.rglob("*") if path.is_file() and not path.is_symlink())
    stats = ((path.relative_to(base).as_posix(), path.stat()) for path in paths)
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats}


@_once
def _snapshot() -> Path:
    copy = _temporary() / "checkout"
    for name in _COPIED:
        source, target = CHECKOUT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns(*_NO_PART_OF_THE_CODE)
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, target)
    compileall.compile_dir(copy, quiet=2)
    return copy


@_once
def _probed_snapshot() -> Probes:
    copy = _temporary() / "checkout"
    shutil.copytree(_snapshot(), copy, symlinks=True, copy_function=os.link)
    return instrument(copy, sources().files)


def _temporary() -> Path:
    place = Path(tempfile.mkdtemp(prefix="tpc-prove-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


# Notes which statements of a copy of the code are executed, by whatever process, and until it is killed.
#
# Each statement inside a function gets a probe before it: `__executed__[17] = 1`, a byte of a file that every process
# of the copy has mapped. The source stays as it is, with its lines; what is changed is the compiled module beside it,
# which Python loads without a look at the source. So it costs little, and a process that is killed has noted what it
# came to.

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
