"""The built wheel in an environment of its own, with the versions of others that somebody wants to know about."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("tpc", "sinks", "coordinator", "chaos", "pyproject.toml", "README.md", "LICENSE")
INSTALLED_WITHIN_S = 900.0
"""PySpark is fetched and built where no wheel of it is kept."""
DEADLINE_S = 300.0
SETUPTOOLS_MIN = 77
"""What pyproject.toml asks of the build; an older one here is left alone and a new one fetched for the build."""
NO_NETWORK = ("No matching distribution found", "Could not find a version", "Connection", "Network is unreachable")


class CannotBeHadError(Exception):
    """Pip finds nothing to install: there is no registry, or no such version in it."""


class FailedError(Exception):
    """A program has ended with an error; its last words."""


def pip(*arguments: object, python: Path | None = None) -> None:
    """Pip of this process's environment, for another one if `python` is given."""
    of = [] if python is None else ["--python", python]
    call = [sys.executable, "-m", "pip", *of, "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(
        [str(each) for each in call], capture_output=True, text=True, timeout=INSTALLED_WITHIN_S, check=False
    )
    if done.returncode == 0:
        return
    if any(words in done.stderr for words in NO_NETWORK):
        raise CannotBeHadError(done.stderr.strip().splitlines()[-1])
    raise FailedError(done.stderr)


def build_wheel(place: Path) -> Path:
    """Built from a copy, since a build leaves its own files among the sources."""
    source = place / "source"
    source.mkdir()
    without_caches = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=without_caches)
        else:
            shutil.copy(ROOT / name, source / name)
    isolation = ["--no-build-isolation"] if _setuptools_version() >= SETUPTOOLS_MIN else []
    pip("wheel", "--no-deps", *isolation, "--wheel-dir", place, source)
    [built] = place.glob("*.whl")
    return built


def _setuptools_version() -> int:
    try:
        return int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return 0


class Environment:
    """A virtual environment that holds nothing yet."""

    def __init__(self, place: Path, python: Path) -> None:
        self.python = place / "bin" / "python"
        call = [str(python), "-m", "venv", "--without-pip", str(place)]
        subprocess.run(call, capture_output=True, timeout=DEADLINE_S, check=True)

    def install(self, *requirements: object) -> None:
        """What pip makes of the requirements, with all that they depend on. Raises `CannotBeHadError`."""
        pip("install", "--no-compile", *requirements, python=self.python)

    def run(self, program: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
        """The last line that the program prints. Raises `FailedError`."""
        call = [str(self.python), "-I", str(program), *arguments]
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": str(self.python), **(environ or {})}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            call,
            cwd=program.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode:
            raise FailedError(
                f"{program.name} ended with {done.returncode}:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
            )
        return done.stdout.strip().splitlines()[-1]
