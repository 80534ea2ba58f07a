"""PyFlink with its connectors, in a virtual environment of its own: it pins other versions of shared packages."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import filelock

from tpc.chaos.servers.jars import Coordinates, cache_directory, fetch

VERSION = "2.3.0"
CONNECTORS = Coordinates(
    (
        ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2"),
        ("org.apache.flink", "flink-connector-base", VERSION),
        ("org.apache.flink", "flink-connector-jdbc-core", "4.0.0-2.0"),
        ("org.apache.flink", "flink-connector-jdbc-postgres", "4.0.0-2.0"),
        ("org.postgresql", "postgresql", "42.7.14"),
    ),
    transitive=False,
)
INSTALL_TIMEOUT_S = 900.0


class FlinkNotInstalledError(Exception):
    """PyFlink cannot be had here; the message says why."""


@dataclass(frozen=True)
class Flink:
    """Where PyFlink is."""

    python: Path
    jars: Path


def flink() -> Flink:
    """PyFlink, installed if it is not there yet. Raises `FlinkNotInstalledError`."""
    place = cache_directory() / "bench" / f"flink-{VERSION}-py{sys.version_info[0]}.{sys.version_info[1]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    python, complete = place / "bin" / "python", place / "complete"
    with filelock.FileLock(f"{place}.lock", timeout=INSTALL_TIMEOUT_S):
        if not complete.exists():
            _run([sys.executable, "-m", "venv", "--clear", str(place)])
            _run([str(python), "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}"])
            complete.touch()
    jars = fetch("flink", CONNECTORS)
    return Flink(python, jars[0].parent)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise FlinkNotInstalledError(f"{command[0]} took longer than {INSTALL_TIMEOUT_S:g} s") from error
    if done.returncode:
        raise FlinkNotInstalledError(done.stderr.strip().splitlines()[-1])
