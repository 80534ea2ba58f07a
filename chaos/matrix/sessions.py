"""A Spark session whose JVM outlives its drivers: held by a process of its own, entered by one driver after another.

A driver that dies costs nothing but itself: the next one is attached to the running, warm JVM in 0.3 s. Run as a
script (`python -m tpc.chaos.matrix.sessions DIRECTORY SETTINGS`) this module is the holder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tpc.chaos.running.owned_processes import OwnedProcess, tail
from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_TIMEOUT_S = 120.0
POLL_S = 0.05
WORKER_DAEMON = "tpc.chaos.servers.worker_daemon"
ADDRESS_FILE = "gateway.json"


@dataclass(frozen=True)
class Gateway:
    """How a driver enters a JVM. The secret stays out of every representation."""

    port: int
    secret: str

    def __repr__(self) -> str:
        return f"Gateway(port={self.port})"

    def attach(self) -> SparkSession:
        """Make this process the driver of the JVM's session; once per process, with nobody else attached."""
        os.environ["PYSPARK_GATEWAY_PORT"] = str(self.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = self.secret
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        gateway = launch_gateway()  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
        # The JVM still lets go of objects of the drivers before, by their numbers: this one's must be others.
        gateway.gateway_property.pool.next_id = os.getpid() * 10_000
        jvm = gateway.jvm
        context = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
        conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
        return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


class WarmSession:
    """A session in a JVM of its own, in `directory`; ends with this process at the latest. `settings` are Spark's."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        command = [sys.executable, "-m", "tpc.chaos.matrix.sessions", str(directory), json.dumps(dict(settings or {}))]
        self._process = OwnedProcess(command, log_path=directory / "session.log", directory=directory)
        self._gateway: Gateway | None = None

    @property
    def gateway(self) -> Gateway:
        """How to enter; waits until the JVM is up. Raises `LocalStackError` when it does not come."""
        if self._gateway is None:
            self._gateway = self._wait()
        return self._gateway

    def _wait(self) -> Gateway:
        deadline = Deadline(START_TIMEOUT_S)
        address = self.directory / ADDRESS_FILE
        while not address.exists():
            if not self._process.alive or deadline.passed:
                raise LocalStackError(f"a Spark session does not start: {tail(self._process.log_path)}")
            time.sleep(POLL_S)
        return Gateway(**json.loads(address.read_text()))

    def workers(self) -> list[psutil.Process]:
        """The Python workers of its tasks; the daemon that forks them is not one."""
        workers = []
        for process in self.family():
            with suppress(psutil.NoSuchProcess):
                parent = process.parent()
                if parent is not None and WORKER_DAEMON in process.cmdline() and WORKER_DAEMON in parent.cmdline():
                    workers.append(process)
        return workers

    def end_workers(self) -> None:
        """SIGKILL to every Python worker, stopped ones too: what they cache belongs to pipelines that are over."""
        for worker in self.workers():
            with suppress(psutil.NoSuchProcess):
                worker.send_signal(signal.SIGKILL)

    def family(self) -> list[psutil.Process]:
        """Its processes: the holder, the JVM, the daemon and its workers."""
        try:
            holder = psutil.Process(self._process.pid)
            return [holder, *holder.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def close(self) -> None:
        """End the JVM, its holder and its workers."""
        self._process.kill()


def hold(directory: Path, settings: Mapping[str, str]) -> None:
    """Start a session, say where its gateway is, and keep it until this process is ended."""
    from tpc.chaos.servers.spark_session import spark_session

    extra = {"spark.python.daemon.module": WORKER_DAEMON, **settings}
    session = spark_session("fault matrix", directory=directory / "spark", extra=extra)
    parameters = session.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]  # it is never None here
    address = directory / ADDRESS_FILE
    descriptor = os.open(address.with_suffix(".new"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"port": parameters.port, "secret": parameters.auth_token}, file)
    address.with_suffix(".new").rename(address)
    threading.Event().wait()


if __name__ == "__main__":
    hold(Path(sys.argv[1]), json.loads(sys.argv[2]))
