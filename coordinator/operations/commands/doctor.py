"""What `tpc doctor` looks at: versions, Java, the log, and the limits of every sink's server. Changes nothing.

What a sink tells of its server stands with the sink (`tpc.findings`); what a start refuses, in `tpc check`.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.job import Job, Preparation
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.operations.commands.log_report import log_report
from tpc.coordinator.operations.commands.targets import load_job, log_named, names_job, shown
from tpc.errors import JavaNotFoundError, TpcError
from tpc.findings import Diagnosed, Finding, Level
from tpc.support.java import ANSWER_TIMEOUT_S, find_java

PACKAGES = ("tpc", "pyspark", "pyarrow", "confluent-kafka", "kafka-python", "psycopg", "pymongo")


def look(target: str | None) -> Iterator[Finding]:
    """All of it: the machine, and with a `target` its log and its sinks' servers."""
    if target is None or not names_job(target):
        yield from machine()
        yield from () if target is None else place(target)
        return
    try:
        made = load_job(target)
    except TpcError as error:
        yield from machine()
        yield _failed(shown(target), error)
        return
    yield from machine(with_spark=made.needs_java)
    try:
        yield from job(made)
    except TpcError as error:
        yield _failed(shown(target), error)


def machine(*, with_spark: bool = True) -> Iterator[Finding]:
    """The versions of what a driver runs on; a service needs nothing of Spark."""
    yield Finding(Level.OK, "Python", platform.python_version())
    for package in PACKAGES:
        try:
            yield Finding(Level.OK, package, version(package))
        except PackageNotFoundError:
            if with_spark or package != "pyspark":
                yield Finding(Level.PROBLEM, package, "not installed", remedy=f"pip install {package}.")
    if with_spark:
        yield _java()


def _java() -> Finding:
    needed = "17, or 21 and above"
    try:
        java = find_java()
    except JavaNotFoundError as error:
        return Finding(Level.PROBLEM, "Java", error.what, needed, error.remedy)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=True)
    return Finding(Level.OK, "Java", f"{told.stderr.splitlines()[0]} ({java})", needed)


def place(target: str) -> Iterator[Finding]:
    """The log that `target` names."""
    try:
        yield _of_log(*log_named(target))
    except TpcError as error:
        yield _failed(shown(target), error)


def job(pipeline: Job) -> Iterator[Finding]:
    """The log of a pipeline or a service, the servers of its sinks, and of a service its sources."""
    if pipeline.log.slots():
        yield _of_log(pipeline.log, pipeline.checkpoint)
    else:
        yield Finding(Level.OK, "log", f"none yet at {pipeline.log.describe()}")
    ready = pipeline.prepared()
    try:
        yield from _of_sinks(ready)
        ready.ask_others(True)
        ready.ask_sources()
    finally:
        ready.coordinator.close()


def _of_log(log: Log, checkpoint: Checkpoint | None) -> Finding:
    report = log_report(log, checkpoint)
    if report["whole"]:
        return Finding(Level.OK, "log", f"{report['log']} is whole")
    [first, *_] = report["flaws"]
    seen = f"{first['kind']}: {first['what']} ({first['where']})"
    return Finding(Level.PROBLEM, "log", seen, "every record whole", "`tpc log check` tells all of it.")


def _of_sinks(ready: Preparation) -> Iterator[Finding]:
    for name, committer in ready.coordinator.participants.committers.items():
        if not isinstance(committer, Diagnosed):
            yield Finding(Level.OK, f"sink {name}", "no server with limits to look at")
            continue
        try:
            told = committer.findings(ready.contexts[name])
        except TpcError as error:
            yield _failed(f"sink {name}", error)
            continue
        for finding in told:
            yield Finding(finding.level, f"sink {name}: {finding.about}", finding.seen, finding.needed, finding.remedy)


def _failed(about: str, error: TpcError) -> Finding:
    return Finding(Level.PROBLEM, about, error.what, remedy=error.remedy)
