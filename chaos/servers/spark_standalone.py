"""A real standalone Spark cluster on this machine: a master and workers, each a process, out of PySpark's jars.

Workers end, leave and come back one by one. What runs on them is somebody else's; what a session needs to run there is
said by `settings`.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tpc.chaos.running.owned_processes import OwnedProcess, read_from, tail
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalStackError
from tpc.support.deadlines import until
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

    `environment` is what the workers, and so their executors, have besides this process's own. Raises
    `LocalStackError` when it does not come up.
    """

    def __init__(
        self, directory: Path, hosts: Sequence[str] = ONE_HOST, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self._hosts = tuple(hosts)
        self._environment = dict(environment or {})
        self._port = free_port()
        self._master: OwnedProcess | None = None
        self._workers: dict[int, OwnedProcess] = {}
        try:
            self._master = self._process("master", "master.Master", MASTER_HOST, "--port", str(self._port))
            self._await("master", lambda: self._said("Starting Spark master") > 0)
            self.start_workers()
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
            "spark.cores.max": str(len(self._hosts)),
            "spark.executor.cores": "1",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.task.maxFailures": str(ALLOWED_FAILURES),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    # Workers ---------------------------------------------------------------------------------------------------

    def start_workers(self) -> None:
        """Start those that do not run, and wait until the master knows them. Nothing happens to those that run."""
        missing = [number for number in range(len(self._hosts)) if not self._is_alive(number)]
        known = self._said("Registering worker")
        for number in missing:
            self._workers[number] = self._worker(number)
        self._await("worker", lambda: self._said("Registering worker") >= known + len(missing))

    def add_worker(self, environment: Mapping[str, str]) -> int:
        """Start one more, on a host that has one, with another environment; its number. Waits as `start_workers`."""
        number, known = len(self._hosts), self._said("Registering worker")
        self._hosts += (self._hosts[-1],)
        self._workers[number] = self._worker(number, environment)
        self._await("worker", lambda: self._said("Registering worker") > known)
        return number

    def kill_worker(self, number: int) -> None:
        """SIGKILL to a worker and to all that runs on it. It does not come back by itself."""
        self._workers[number].kill()

    def decommission_worker(self, number: int) -> None:
        """Tell a worker that it is going to be taken away: it gets no more tasks, and its executor ends when idle."""
        self._workers[number].send_signal(signal.SIGPWR)

    def worker_of(self, process: psutil.Process) -> int:
        """The number of the worker that a process runs on. Raises `LocalStackError` if it runs on none."""
        above = {parent.pid for parent in process.parents()}
        for number, worker in self._workers.items():
            if worker.pid in above:
                return number
        raise LocalStackError(f"process {process.pid} runs on no worker of this cluster")

    def executors(self) -> list[psutil.Process]:
        """The JVMs of all executors that run, of whatever application."""
        found = []
        for worker in self._workers.values():
            with suppress(psutil.NoSuchProcess):
                found += [one for one in psutil.Process(worker.pid).children(recursive=True) if _is_executor(one)]
        return found

    def close(self) -> None:
        """End all of it, executors too."""
        for process in [*self._workers.values(), *([self._master] if self._master else [])]:
            process.kill()

    # Processes -------------------------------------------------------------------------------------------------

    def _is_alive(self, number: int) -> bool:
        return number in self._workers and self._workers[number].alive

    def _worker(self, number: int, environment: Mapping[str, str] | None = None) -> OwnedProcess:
        words = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self.directory / f"work-{number}"))
        return self._process(
            f"worker-{number}", "worker.Worker", self._hosts[number], *words, self.url, own=environment
        )

    def _process(
        self, name: str, role: str, host: str, *arguments: str, own: Mapping[str, str] | None = None
    ) -> OwnedProcess:
        home = _spark_home()
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dspark.decommission.enabled=true")
        place = ("--host", host, "--webui-port", "0")
        classes = ("-cp", str(home / "jars" / "*"), f"org.apache.spark.deploy.{role}")
        environment = {
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": _scala_version(home),  # else a worker looks for Spark's build directories
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
            **(self._environment if own is None else own),
        }
        return OwnedProcess(
            [find_java(), *options, *classes, *place, *arguments],
            log_path=self.directory / f"{name}.log",
            directory=self.directory,
            environment=environment,
        )

    def _said(self, words: str) -> int:
        """How often the master has said so."""
        return read_from(self.directory / "master.log", 0).count(words)

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait for what the master says of the one that starts."""
        processes = [*self._workers.values(), *([self._master] if self._master else [])]

        def ready_or_never() -> bool:
            if not all(process.alive for process in processes):
                raise self._not_started(name)
            return ready()

        if not until(ready_or_never, START_TIMEOUT_S, pause_max_s=POLL_S):
            raise self._not_started(name)

    def _not_started(self, name: str) -> LocalStackError:
        logs = sorted(self.directory.glob(f"{name}*.log"))
        return LocalStackError(f"the Spark cluster does not start: {''.join(tail(path) for path in logs)}")


def executor_of(pid: int) -> psutil.Process:
    """The executor's JVM that a Python worker belongs to. Raises `LocalStackError` if it has none."""
    for process in psutil.Process(pid).parents():
        if _is_executor(process):
            return process
    raise LocalStackError(f"process {pid} is no worker of an executor")


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(EXECUTOR_CLASS in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _scala_version(home: Path) -> str:
    """What Spark's jars say: 2.13 in spark-core_2.13-4.0.5.jar."""
    versions = [match[1] for path in (home / "jars").iterdir() if (match := _CORE_JAR.fullmatch(path.name))]
    if not versions:
        raise LocalStackError(f"this PySpark has no spark-core jar in {home}", remedy="install pyspark from PyPI.")
    return versions[0]


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
