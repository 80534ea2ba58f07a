"""The sets of jars that the local servers and Spark's Kafka source need, fetched once from Maven Central.

PySpark ships Ivy; nothing else is needed to resolve them. A set is complete when its directory is there: it is
put together beside it and renamed, so that an interrupted fetch leaves nothing that could be taken for a set.
One file lock per set keeps two processes apart; each set has an Ivy cache of its own, so that several sets can be
fetched at once and what an interrupted fetch has already loaded is used by the next.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tpc.chaos.running.extra_demo import of_extra_demo
from tpc.chaos.running.owned_processes import OwnedProcess, read_from, tail
from tpc.errors import ConfigurationError, JarFetchError, NotInstalledError
from tpc.support import durable_files
from tpc.support.deadlines import Deadline
from tpc.support.java import find_java

with of_extra_demo():
    import filelock
    import platformdirs

FETCH_TIMEOUT_S = 900.0
REPORT_EVERY_S = 0.5

Report = Callable[[str], None]


@dataclass(frozen=True)
class Coordinates:
    """What to fetch: (group, artifact, version) each, with or without what they depend on."""

    artifacts: tuple[tuple[str, str, str], ...]
    transitive: bool

    def digest(self) -> str:
        """Eight hexadecimal digits that change with the set's contents."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:8]

    def ivy_file(self, name: str) -> str:
        """The module description that Ivy resolves."""
        wanted = "".join(
            f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
            f'transitive="{str(self.transitive).lower()}" conf="default->default"/>'
            for group, artifact, version in self.artifacts
        )
        return (
            f'<ivy-module version="2.0"><info organisation="tpc" module={quoteattr(name)}/>'
            f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
        )


JAR_SETS: Mapping[str, Coordinates] = {
    "hadoop-aws": Coordinates((("org.apache.hadoop", "hadoop-aws", "3.4.1"),), transitive=False),
    "aws-sdk": Coordinates(  # of the SDK what hadoop-aws uses, with what that depends on
        (
            ("software.amazon.awssdk", "s3-transfer-manager", "2.29.52"),
            ("software.amazon.awssdk", "sts", "2.29.52"),
        ),
        transitive=True,
    ),
    "kafka": Coordinates(
        (
            ("org.apache.kafka", "kafka_2.13", "4.3.1"),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # without it the broker logs nothing
        ),
        transitive=True,
    ),
    "mongo": Coordinates((("de.bwaldvogel", "mongo-java-server-h2-backend", "1.47.0"),), transitive=True),
    "spark-hadoop-cloud": Coordinates(  # the newest for Spark 4.0 that is published is 4.0.1
        (("org.apache.spark", "spark-hadoop-cloud_2.13", "4.0.1"),), transitive=False
    ),
    "spark-kafka": Coordinates(  # PySpark carries everything else that these depend on
        (
            ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
            ("org.apache.kafka", "kafka-clients", "3.9.0"),
            ("org.apache.commons", "commons-pool2", "2.12.0"),
        ),
        transitive=False,
    ),
}


def jar_set(
    name: str,
    *,
    report: Report | None = None,
    cancelled: threading.Event | None = None,
    timeout_s: float = FETCH_TIMEOUT_S,
) -> list[Path]:
    """The jars of the set `name` (`JAR_SETS`), fetched if this machine has not got them yet.

    `report` gets a line now and then while they load; `cancelled` ends the wait from another thread. Raises
    `JarFetchError` with the end of Ivy's log, `JavaNotFoundError`, and `ConfigurationError` for an unknown set.
    """
    if name not in JAR_SETS:
        raise ConfigurationError(f"there is no jar set {name!r}", remedy=f"choose one of {', '.join(JAR_SETS)}.")
    return fetch(name, JAR_SETS[name], report=report, cancelled=cancelled, timeout_s=timeout_s)


def cache_directory() -> Path:
    """Where jars are kept: TPC_CACHE, else the user's cache directory."""
    return Path(os.environ.get("TPC_CACHE") or platformdirs.user_cache_dir("tpc"))


def fetch(
    name: str,
    coordinates: Coordinates,
    *,
    report: Report | None = None,
    cancelled: threading.Event | None = None,
    timeout_s: float = FETCH_TIMEOUT_S,
) -> list[Path]:
    """The jars of `coordinates`, kept under `name`; see `jar_set`."""
    complete = cache_directory() / "jars" / f"{name}-{coordinates.digest()}"
    if not complete.is_dir():
        deadline = Deadline(timeout_s)
        complete.parent.mkdir(parents=True, exist_ok=True)
        with _locked(complete.with_suffix(".lock"), name, deadline, report, cancelled):
            if not complete.is_dir():
                _Fetch(name, coordinates, complete, report, cancelled).run(deadline)
    return sorted(complete.glob("*.jar"))


@contextmanager
def _locked(
    path: Path, name: str, deadline: Deadline, report: Report | None, cancelled: threading.Event | None
) -> Iterator[None]:
    """Hold the lock of a set; whoever has to wait for it can be told so and can give up."""
    lock = filelock.FileLock(path)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=REPORT_EVERY_S)
        except filelock.Timeout:
            _stop_if(cancelled, name)
            if deadline.passed:
                raise JarFetchError(
                    f"another process has been fetching the {name} jars for {deadline.elapsed_s:.0f} s",
                    remedy=f"wait for it or end it; it holds {path}.",
                ) from None
            if report:
                report(f"{name}: waiting for another process that fetches the same jars, {deadline.elapsed_s:.0f} s")
    try:
        yield
    finally:
        lock.release()


def _stop_if(cancelled: threading.Event | None, name: str) -> None:
    if cancelled is not None and cancelled.is_set():
        raise JarFetchError(f"fetching the {name} jars was cancelled", remedy="start again: it goes on from there.")


class _Fetch:
    """One run of Ivy, under the set's lock."""

    def __init__(
        self,
        name: str,
        coordinates: Coordinates,
        complete: Path,
        report: Report | None,
        cancelled: threading.Event | None,
    ) -> None:
        self.name = name
        self.coordinates = coordinates
        self.complete = complete
        self.report = report
        self.cancelled = cancelled
        self.ivy_directory = cache_directory() / "ivy" / name
        self.log_path = self.ivy_directory / "ivy.log"

    def run(self, deadline: Deadline) -> None:
        """Fetch into a directory of its own, make it durable, then give it its name."""
        for left_over in self.complete.parent.glob(f"{self.complete.name}.part-*"):
            shutil.rmtree(left_over)
        partial = self.complete.with_name(f"{self.complete.name}.part-{os.getpid()}")
        partial.mkdir()
        self.ivy_directory.mkdir(parents=True, exist_ok=True)
        self.log_path.unlink(missing_ok=True)
        module = self.ivy_directory / "ivy.xml"
        module.write_text(self.coordinates.ivy_file(self.name))
        try:
            self._resolve(module, partial, deadline)
            for path in (*partial.iterdir(), partial):
                durable_files.sync(path)
            partial.replace(self.complete)
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # it is gone already when all went well
        durable_files.sync(self.complete.parent)

    def _resolve(self, module: Path, partial: Path, deadline: Deadline) -> None:
        ivy = OwnedProcess(
            [
                *(find_java(), "-jar", str(_ivy_jar()), "-cache", str(self.ivy_directory / "cache")),
                *("-ivy", str(module), "-confs", "default", "-types", "jar", "bundle", "-m2compatible"),
                *("-retrieve", str(partial / "[artifact]-[revision](-[classifier]).[ext]")),
            ],
            log_path=self.log_path,
            directory=self.ivy_directory,
        )
        try:
            while not ivy.wait(REPORT_EVERY_S):
                _stop_if(self.cancelled, self.name)
                if deadline.passed:
                    raise self._failed(f"took more than {deadline.timeout_s:.0f} s")
                if self.report:
                    self.report(self._progress(deadline.elapsed_s))
        finally:
            ivy.kill()
        if ivy.exit_code != 0:
            raise self._failed(f"ended with code {ivy.exit_code}")

    def _progress(self, elapsed_s: float) -> str:
        log = read_from(self.log_path, 0)
        return (
            f"{self.name}: fetching jars (once), {elapsed_s:.0f} s, "
            f"{log.count('found ')} found, {log.count('[SUCCESSFUL ]')} loaded"
        )

    def _failed(self, what: str) -> JarFetchError:
        return JarFetchError(
            f"fetching the {self.name} jars {what}; the end of Ivy's log: {tail(self.log_path)}\n",
            safe="what has been loaded is kept; no incomplete set is ever used.",
            remedy=(
                "see that https://repo1.maven.org is reachable (behind a proxy set "
                "JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...), then start again: it goes on from there. "
                f"The whole log: {self.log_path}"
            ),
        )


def _ivy_jar() -> Path:
    import pyspark  # heavy, and only needed when something has to be fetched

    home = Path(pyspark.__file__).parent / "jars"
    versions = sorted(home.glob("ivy-2*.jar"))
    if not versions:
        raise NotInstalledError(f"this PySpark has no Ivy in {home}", remedy="install pyspark from PyPI.")
    return versions[-1]
