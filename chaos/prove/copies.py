"""Copies of the checkout in temporary directories: with the edits of a mutant, with probes, or as it is.

The checkout is read once, so that whoever goes on working in it changes nothing of a proof; what is compiled of it is
compiled once. A copy is made of hard links to that, in which only whole files are replaced; whoever writes into one of
them changes it in every copy, and ends the proof.
"""

from __future__ import annotations

import atexit
import compileall
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

import tpc
from tpc.chaos.prove.anchors import ROOMS, Sources
from tpc.chaos.prove.mutant import Mutant
from tpc.chaos.prove.probes import Probes, instrument

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
