"""HDFS out of a package: a NameNode and a DataNode, each a process of its own that can be killed and started again."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tpc.chaos.running.owned_processes import OwnedProcess, run
from tpc.chaos.servers.jars import Coordinates, fetch
from tpc.chaos.servers.server import LocalServer
from tpc.support.java import find_java

JARS = Coordinates((("org.apache.hadoop", "hadoop-client-minicluster", "3.4.1"),), transitive=True)
"""In the version of Hadoop's client that PySpark brings."""
FORMAT_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 2.0
_OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED",)  # for the Guice in Hadoop, from Java 17 on
_HDFS = "org.apache.hadoop.hdfs.server"
_LOGGING = """\
log4j.rootLogger=WARN,C
log4j.appender.C=org.apache.log4j.ConsoleAppender
log4j.appender.C.layout=org.apache.log4j.PatternLayout
log4j.appender.C.layout.ConversionPattern=%d %p %m (%c)%n
"""


class HadoopServer(LocalServer):
    """One of the two, with its configuration in its directory."""

    def _set_up(self) -> None:
        self._class_path = str(fetch("hadoop-minicluster", JARS, cancelled=self.cancelled)[0].parent / "*")
        (self.directory / "log4j.properties").write_text(_LOGGING)

    def _configure(self, **sites: Mapping[str, object]) -> None:
        """Write `core-site.xml` and its like."""
        for site, settings in sites.items():
            properties = "".join(
                f"<property><name>{name}</name><value>{escape(str(value))}</value></property>"
                for name, value in settings.items()
            )
            (self.directory / f"{site}-site.xml").write_text(f"<configuration>{properties}</configuration>")

    def _java(self, *words: str) -> list[str]:
        options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", *_OPENED)
        return [find_java(), *options, "-cp", f"{self.directory}:{self._class_path}", *words]

    def _run(self, *words: str) -> OwnedProcess:
        return OwnedProcess(
            self._java(*words), log_path=self.log_path, directory=self.directory, end_signal=signal.SIGKILL
        )


class NameNode(HadoopServer):
    """Keeps the names; `address` is the URL of the file system. Names survive `kill`."""

    name = "namenode"
    ports_needed = 2

    @property
    def address(self) -> str:
        """What URLs of files begin with."""
        return f"hdfs://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What it says of itself and of its DataNodes."""
        question = f"http://127.0.0.1:{self._ports[1]}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        with urllib.request.urlopen(question, timeout=ANSWER_TIMEOUT_S) as answer:
            (found,) = json.load(answer)["beans"]
        return dict(found)

    def _launch(self) -> OwnedProcess:
        port, web_port = self._ports
        names = self.directory / "names"
        self._configure(
            core={"fs.defaultFS": f"hdfs://127.0.0.1:{port}", "hadoop.tmp.dir": self.directory / "tmp"},
            hdfs={
                "dfs.namenode.name.dir": f"file://{names}",
                "dfs.namenode.http-address": f"127.0.0.1:{web_port}",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.namenode.safemode.extension": 0,
                "dfs.permissions.enabled": "false",
                "dfs.replication": 1,
            },
        )
        if not names.exists():
            run(
                self._java(f"{_HDFS}.namenode.NameNode", "-format", "-nonInteractive"),
                log_path=self.directory / "format.log",
                directory=self.directory,
                timeout_s=FORMAT_TIMEOUT_S,
                cancelled=self.cancelled,
            )
        return self._run(f"{_HDFS}.namenode.NameNode")

    def _answers(self) -> bool:
        try:
            return self._listens() and bool(self.state())
        except (OSError, ValueError):
            return False


class DataNode(HadoopServer):
    """Keeps the bytes of `namenode`'s files. Bytes survive `kill`."""

    name = "datanode"

    def __init__(self, directory: Path, namenode: NameNode, **limits: Any) -> None:
        super().__init__(directory, **limits)
        self.namenode = namenode

    @property
    def address(self) -> str:
        """Where clients send bytes."""
        return f"127.0.0.1:{self.port}"

    def _launch(self) -> OwnedProcess:
        self._configure(
            core={"fs.defaultFS": self.namenode.address, "hadoop.tmp.dir": self.directory / "tmp"},
            hdfs={
                "dfs.datanode.data.dir": f"file://{self.directory / 'blocks'}",
                "dfs.datanode.address": self.address,
                "dfs.datanode.ipc.address": "127.0.0.1:0",
                "dfs.datanode.http.address": "127.0.0.1:0",
                "dfs.datanode.hostname": "127.0.0.1",
                "dfs.heartbeat.interval": 1,
            },
        )
        return self._run(f"{_HDFS}.datanode.DataNode")

    def _answers(self) -> bool:
        """Whether the NameNode knows it and takes writes."""
        try:
            state = self.namenode.state()
        except (OSError, ValueError):
            return False
        there = state["NumLiveDataNodes"] == 1 and state["CapacityTotal"] > 0  # it has told how much it can take
        return self._listens() and there and state["FSState"] == "Operational"


@contextmanager
def running_hdfs(directory: Path) -> Iterator[tuple[NameNode, DataNode]]:
    """Both, running, with what they keep below `directory`; killed at the end."""
    names = NameNode(directory / "names")
    data = DataNode(directory / "data", names)
    try:
        names.start()
        data.start()
        yield names, data
    finally:
        data.kill()
        names.kill()
