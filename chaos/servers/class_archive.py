"""Spark's classes in the form in which the JVM maps them into its memory: a session starts with half the CPU.

Most of what a short-lived session costs is loading, checking and linking some fifteen thousand classes, the same at
every start. A JVM can write down what it has loaded (`-XX:ArchiveClassesAtExit`), and others map that file instead.
It is made once for a machine, by a session that runs a small stateful query and ends; who has none, or one of other
jars or another Java, starts as always. Nothing but the time differs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from tpc.chaos.running.extra_demo import of_extra_demo
from tpc.chaos.running.owned_processes import run
from tpc.chaos.servers.jars import cache_directory
from tpc.errors import LocalServerError
from tpc.support import durable_files
from tpc.support.java import find_java

with of_extra_demo():
    import filelock

MAKING_S = 600.0
"""How long it may take; on two idle cores half a minute."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM says on its standard output which classes it leaves out."""


def class_archive() -> Path:
    """Where the archive is or would be: another for every Java and every set of Spark's jars."""
    import pyspark

    return _place(find_java(), str(Path(pyspark.__file__).parent / "jars"))


@lru_cache(maxsize=8)
def _place(java: str, jars: str) -> Path:
    known = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(Path(jars).glob("*.jar"))]
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    digest = hashlib.sha256(repr((version, os.path.realpath(java), jars, known)).encode()).hexdigest()[:16]
    return cache_directory() / "classes" / f"spark-{digest}.jsa"


def archive_options() -> str:
    """What a JVM is told to use the archive; nothing when there is none."""
    archive = class_archive()
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.exists() else ""


def make_class_archive() -> bool:
    """Make it, if this machine has none; whether there is one then. It is no error if it cannot be made."""
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(archive.with_suffix(".lock"), timeout=MAKING_S):
            if not archive.exists():
                _make(archive)
    except (filelock.Timeout, OSError, LocalServerError):
        return False
    return True


def _make(archive: Path) -> None:
    """Beside its place, whole and durable before it has its name: a JVM dies of an archive that is cut off."""
    with tempfile.TemporaryDirectory(prefix="tpc-classes-", dir=archive.parent) as place:
        made, log = Path(place, "classes.jsa"), Path(place, "log")
        command = [sys.executable, "-m", "tpc.chaos.servers.archived_session", str(made)]
        run(command, log_path=log, directory=Path(place), timeout_s=MAKING_S)
        verify = [find_java(), "-Xshare:auto", f"-XX:SharedArchiveFile={made}", "-XX:+VerifySharedSpaces", "-version"]
        run(verify, log_path=log, directory=Path(place), timeout_s=MAKING_S)
        durable_files.sync(made)
        made.replace(archive)
        durable_files.sync(archive.parent)
