"""YARN out of packages: a ResourceManager and a NodeManager, each a process, and what submits a program to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from tests.support.hdfs_server import ANSWER_TIMEOUT_S, HadoopServer
from tests.support.processes import REPOSITORY
from tpc.chaos.running.owned_processes import OwnedProcess
from tpc.chaos.servers.jars import Coordinates, cache_directory, fetch
from tpc.support.java import find_java

BESIDE = Coordinates(
    (
        ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        ("org.glassfish.jaxb", "jaxb-runtime", "2.3.9"),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        ("org.apache.logging.log4j", "log4j-1.2-api", "2.25.4"),
    ),
    transitive=True,
)
"""What both need at run time and the jars of Hadoop's small cluster lack."""
_SERVER = "org.apache.hadoop.yarn.server"
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d %p %c: %m%n%ex
"""
_ONE_QUEUE = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": 100,
    "yarn.scheduler.capacity.maximum-am-resource-percent": 1.0,
}


class YarnServer(HadoopServer):
    """One of the two."""

    def _set_up(self) -> None:
        super()._set_up()
        beside = fetch("hadoop-yarn-beside", BESIDE, cancelled=self.cancelled)
        self._class_path = ":".join([self._class_path, *map(str, beside)])
        (self.directory / "log4j2.properties").write_text(_LOGGING)

    def _configure_yarn(self, settings: Mapping[str, object]) -> None:
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": self.directory / "tmp"}
        self._configure(core=core, yarn=settings)


class ResourceManager(YarnServer):
    """Gives out containers; its directory is the `HADOOP_CONF_DIR` of whoever submits."""

    name = "resourcemanager"
    ports_needed = 5

    @property
    def address(self) -> str:
        """Where programs are submitted."""
        return f"127.0.0.1:{self.port}"

    @property
    def tracker(self) -> str:
        """Where NodeManagers report."""
        return f"127.0.0.1:{self._ports[2]}"

    def ask(self, path: str) -> dict[str, Any]:
        """What its web service says."""
        question = f"http://127.0.0.1:{self._ports[4]}/ws/v1/cluster/{path}"
        with urllib.request.urlopen(question, timeout=ANSWER_TIMEOUT_S) as answer:
            return dict(json.load(answer))

    def _launch(self) -> OwnedProcess:
        port, scheduler, _, admin, web = self._ports
        self._configure_yarn(
            {
                "yarn.resourcemanager.hostname": "127.0.0.1",
                "yarn.resourcemanager.address": f"127.0.0.1:{port}",
                "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{scheduler}",
                "yarn.resourcemanager.resource-tracker.address": self.tracker,
                "yarn.resourcemanager.admin.address": f"127.0.0.1:{admin}",
                "yarn.resourcemanager.webapp.address": f"127.0.0.1:{web}",
                "yarn.scheduler.minimum-allocation-mb": 256,
            }
        )
        self._configure(**{"capacity-scheduler": _ONE_QUEUE})
        (self.directory / "capacity-scheduler-site.xml").replace(self.directory / "capacity-scheduler.xml")
        return self._run(f"{_SERVER}.resourcemanager.ResourceManager")

    def _answers(self) -> bool:
        try:
            return self._listens() and bool(self.ask("metrics"))
        except (OSError, ValueError):
            return False


class NodeManager(YarnServer):
    """Runs the containers that `manager` gives out, as its own user. With it they end."""

    name = "nodemanager"
    ports_needed = 3

    def __init__(self, directory: Path, manager: ResourceManager, **limits: Any) -> None:
        super().__init__(directory, **limits)
        self.manager = manager

    @property
    def address(self) -> str:
        """Where containers are started."""
        return f"127.0.0.1:{self.port}"

    def containers(self) -> list[psutil.Process]:
        """All processes that run in containers here."""
        return psutil.Process(self.pid).children(recursive=True)

    def masters(self) -> set[str]:
        """The containers of all application masters that it has run: each attempt has one, the first of its own."""
        return {path.name for path in self.directory.glob("containers/*/container_*_000001")}

    def _launch(self) -> OwnedProcess:
        port, localizer, web = self._ports
        self._configure_yarn(
            {
                "yarn.resourcemanager.resource-tracker.address": self.manager.tracker,
                "yarn.nodemanager.hostname": "127.0.0.1",
                "yarn.nodemanager.address": f"127.0.0.1:{port}",
                "yarn.nodemanager.localizer.address": f"127.0.0.1:{localizer}",
                "yarn.nodemanager.webapp.address": f"127.0.0.1:{web}",
                "yarn.nodemanager.local-dirs": self.directory / "local",
                "yarn.nodemanager.log-dirs": self.directory / "containers",
                "yarn.nodemanager.delete.debug-delay-sec": 600,
                "yarn.nodemanager.resource.memory-mb": 6144,
                "yarn.nodemanager.resource.cpu-vcores": 8,
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.enable": "false",
            }
        )
        return self._run(f"{_SERVER}.nodemanager.NodeManager")

    def _answers(self) -> bool:
        """Whether the ResourceManager counts on it."""
        try:
            return self._listens() and self.manager.ask("metrics")["activeNodes"] == 1
        except (OSError, ValueError):
            return False


def shared_settings(directory: Path) -> dict[str, str]:
    """What a program on YARN here says of Spark, in either mode; what Spark sends to containers lies in `directory`."""
    staging = directory / "staging"
    staging.mkdir(parents=True)
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {
        "spark.master": "yarn",
        "spark.yarn.jars": f"local:{_spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file:{staging}",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick,
        **{f"spark.executorEnv.{name}": value for name, value in _in_containers().items()},
    }


def submitter(manager: ResourceManager) -> dict[str, str]:
    """The environment of a process that asks `manager` for containers."""
    return {
        "HADOOP_CONF_DIR": str(manager.directory),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def submit(manager: ResourceManager, directory: Path, program: Path, *arguments: str) -> subprocess.Popen[str]:
    """Have YARN run a program in its cluster mode: the driver is within the application master, tried twice.

    What is said of it goes to `submit.log` in `directory`, a new one.
    """
    drivers = {"PYSPARK_PYTHON": sys.executable, "TPC_CACHE": str(cache_directory()), "HOME": str(directory)}
    settings = {
        **shared_settings(directory),
        "spark.submit.deployMode": "cluster",
        "spark.yarn.maxAppAttempts": "2",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in {**_in_containers(), **drivers}.items()},
    }
    said = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.Popen(
        [_spark_home() / "bin" / "spark-submit", *said, program, *arguments],
        stdout=(directory / "submit.log").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **submitter(manager)},
        start_new_session=True,
    )


def _in_containers() -> dict[str, str]:
    return {"PYTHONPATH": str(REPOSITORY), "JAVA_HOME": str(Path(find_java()).resolve().parents[1])}


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
