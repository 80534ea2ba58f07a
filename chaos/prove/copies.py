"""Copies of the checkout in temporary directories: one with the edits of a mutant, one as it is.

What a mutant makes of a module is compiled; whether it can be imported shows when a check runs in the copy.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import tpc
from tpc.chaos.prove.anchors import Sources
from tpc.chaos.prove.mutant import Mutant

CHECKOUT = Path(tpc.__file__).resolve().parents[1]
MUTANTS = CHECKOUT / "tests" / "mutants"
_COPIED = ("tpc", "sinks", "coordinator", "chaos", "tests", "docs/examples", "pyproject.toml")


@cache
def sources() -> Sources:
    """The modules of the checkout as they are when they are first asked for."""
    return Sources(CHECKOUT)


@contextmanager
def copied(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of the checkout, with the mutant's edits. Raises `MutantError` when they do not fit or do not compile."""
    with tempfile.TemporaryDirectory(prefix="tpc-prove-") as place:
        copy = Path(place) / "checkout"
        _copy(copy)
        if mutant is not None:
            for file, text in sources().changed(mutant).items():
                (copy / file).write_text(text, encoding="utf-8")
        yield copy


def _copy(copy: Path) -> None:
    for name in _COPIED:
        source, target = CHECKOUT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, target)
