"""Copies of the checkout in temporary directories, one with a patch applied, one as it is.

A patch is applied by `git apply`, which takes it exactly or not at all. What is copied is compiled; whether it can be
imported shows when a check runs in it.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tpc
from tpc.chaos.prove.mutant import Mutant, PatchError

CHECKOUT = Path(tpc.__file__).resolve().parents[1]
MUTANTS = CHECKOUT / "tests" / "mutants"
_COPIED = ("tpc", "sinks", "coordinator", "chaos", "tests", "docs/examples", "pyproject.toml")
_MAY_CHANGE = ("tpc/", "sinks/", "coordinator/")
_MUST_NOT_CHANGE = ("tpc/testing/",)
_GIT_DEADLINE_S = 60.0


@contextmanager
def copied(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of the checkout, with the mutant's patch. Raises `PatchError` when it cannot be applied or compiled."""
    with tempfile.TemporaryDirectory(prefix="tpc-prove-") as place:
        copy = Path(place) / "checkout"
        _copy(copy)
        if mutant is not None:
            apply_patch(mutant, copy)
        yield copy


def _refuse_other_files(mutant: Mutant) -> None:
    """A patch of the checks would prove nothing about them."""
    if not mutant.files:
        raise PatchError("it changes no file")
    for name in mutant.files:
        if not name.startswith(_MAY_CHANGE) or name.startswith(_MUST_NOT_CHANGE):
            raise PatchError(f"it changes {name}; a mutant changes the core, the sinks or the coordinator")


def _copy(copy: Path) -> None:
    for name in _COPIED:
        source, target = CHECKOUT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, target)


def apply_patch(mutant: Mutant, copy: Path) -> None:
    """Change the files in a copy as the mutant's patch says, and compile them. Raises `PatchError`."""
    _refuse_other_files(mutant)
    before = {name: _content(copy / name) for name in mutant.files}
    # Inside of some other repository git would look for the files there.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent), "LC_ALL": "C"}
    applied = subprocess.run(
        ["git", "apply", "-"],
        input=mutant.text,
        cwd=copy,
        env=environment,
        timeout=_GIT_DEADLINE_S,
        check=False,
        capture_output=True,
        text=True,
    )
    if applied.returncode:
        raise PatchError(f"it does not apply: {applied.stderr.strip()}")
    if before == {name: _content(copy / name) for name in mutant.files}:
        raise PatchError("it changes nothing")
    for name in mutant.files:
        if name.endswith(".py") and (copy / name).exists() and not compileall.compile_file(copy / name, quiet=2):
            raise PatchError(f"{name} is no Python any more")


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
