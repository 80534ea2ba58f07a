"""A real standalone Spark cluster on this machine: a master and workers, each a process, out of PySpark's jars."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tpc.chaos.running.owned_processes import OwnedProcess, read_from, tail
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline
from tpc.support.java import find_java

START_TIMEOUT_S = 90.0
POLL_S = 0.1
ALLOWED_FAILURES = 4
WORKER_MEMORY = "1g"
EXECUTOR_MEMORY = "512m"
MASTER_HOST = "127.0.0.1"
ONE_HOST = ("127.0.0.1", "127.0.0.1")
TWO_HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark runs a speculative copy only on another host. Linux answers at every address of 127.0.0.0/8."""
EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
_CORE_JAR = re.compile(r"spark-core_([0-9.]+)-.*\.jar")


class StandaloneCluster:
    """A master and, on each of `hosts`, a worker of one core, in `directory`. Ends with this process at the latest.

    Raises `LocalStackError` when it does not come up.
    """

    def __init__(self, directory: Path, hosts: Sequence[str] = ONE_HOST) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self._port = free_port()
        self._processes: list[OwnedProcess] = []
        try:
            self._start("master", "master.Master", MASTER_HOST, "--port", str(self._port))
            self._await("master.log", "Starting Spark master", 1)
            for number, host in enumerate(hosts):
                words = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(directory / f"work-{number}"))
                self._start(f"worker-{number}", "worker.Worker", host, *words, self.url)
            self._await("master.log", "Registering worker", len(hosts))
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The `spark.master` of a session."""
        return f"spark://{MASTER_HOST}:{self._port}"

    @property
    def settings(self) -> Mapping[str, str]:
        """What a session needs to have an executor on each worker and to run failed tasks again."""
        return {
            "spark.master": self.url,
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.task.maxFailures": str(ALLOWED_FAILURES),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    def close(self) -> None:
        """End all of it, executors too."""
        for process in reversed(self._processes):
            process.kill()

    def _start(self, name: str, role: str, host: str, *arguments: str) -> None:
        home = _spark_home()
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(home / "jars" / "*"))
        place = ("--host", host, "--webui-port", "0")
        command = [find_java(), *options, f"org.apache.spark.deploy.{role}", *place, *arguments]
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": _scala_version(home),  # else a worker looks for Spark's build directories
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
        }
        log = self.directory / f"{name}.log"
        self._processes.append(OwnedProcess(command, log_path=log, directory=self.directory, environment=environment))

    def _await(self, log: str, words: str, times: int) -> None:
        """Wait until a log says so."""
        deadline = Deadline(START_TIMEOUT_S)
        path = self.directory / log
        while read_from(path, 0).count(words) < times:
            if not all(process.alive for process in self._processes) or deadline.passed:
                raise LocalStackError(f"the Spark cluster does not start: {tail(path)}")
            time.sleep(POLL_S)


def executor_of(pid: int) -> psutil.Process:
    """The executor's JVM that a Python worker belongs to. Raises `LocalStackError` if it has none."""
    for process in psutil.Process(pid).parents():
        if any(EXECUTOR_CLASS in word for word in process.cmdline()):
            return process
    raise LocalStackError(f"process {pid} is no worker of an executor")


def _scala_version(home: Path) -> str:
    """What Spark's jars say: 2.13 in spark-core_2.13-4.0.5.jar."""
    versions = [match[1] for path in (home / "jars").iterdir() if (match := _CORE_JAR.fullmatch(path.name))]
    if not versions:
        raise LocalStackError(f"this PySpark has no spark-core jar in {home}", remedy="install pyspark from PyPI.")
    return versions[0]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
