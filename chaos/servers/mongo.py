"""A MongoDB for trying and testing: `mongod` if there is one on the PATH, else mongo-java-server.

mongo-java-server is a stand-in that speaks the protocol and keeps its data in one H2 file. It has no main class
that takes an address: a py4j gateway (PySpark ships it) builds the server inside the new process, makes SIGTERM
close it in good order, and is closed. What the stand-in cannot do is in `notes`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tpc.chaos.running.owned_processes import OwnedProcess, read_from, tail
from tpc.chaos.servers.jars import Report, jar_set
from tpc.chaos.servers.server import POLL_S, LocalServer
from tpc.errors import LocalServerError, NotInstalledError
from tpc.support.deadlines import until
from tpc.support.java import find_java

GATEWAY_TIMEOUT_S = 30.0
REPLICA_SET = "tpc"
STAND_IN_NOTES = (
    "mongo-java-server stands in for MongoDB, since there is no mongod on the PATH",
    "no transactions: the MongoDB sink runs in its guarded mode, eventually atomic",
    "loses acknowledged writes when the server itself is killed; killing its clients is safe",
    "an ordered bulk write goes on after an error; no pipeline updates; no replica set",
)


class MongodServer(LocalServer):
    """A `mongod` as a replica set of one member at `uri`; writes are journaled, data survive `kill`."""

    name = "mongo"
    notes = ("mongod as a replica set of one member: transactions work, failover cannot be tried",)

    @property
    def uri(self) -> str:
        """A connection string."""
        return f"mongodb://127.0.0.1:{self.port}/?replicaSet={REPLICA_SET}"

    @property
    def address(self) -> str:
        """The same as `uri`."""
        return self.uri

    def _set_up(self) -> None:
        (self.directory / "data").mkdir(exist_ok=True)

    def _launch(self) -> OwnedProcess:
        mongod = shutil.which("mongod")
        if mongod is None:
            raise NotInstalledError("there is no mongod on the PATH", remedy="install MongoDB, or use MongoJavaServer.")
        return OwnedProcess(
            [
                *(mongod, "--replSet", REPLICA_SET, "--dbpath", str(self.directory / "data")),
                *("--bind_ip", "127.0.0.1", "--port", str(self.port), "--wiredTigerCacheSizeGB", "0.25"),
            ],
            log_path=self.log_path,
            directory=self.directory,
        )

    def _answers(self) -> bool:
        import pymongo
        from pymongo.errors import OperationFailure, PyMongoError

        if not self._listens():
            return False
        direct = f"mongodb://127.0.0.1:{self.port}/?directConnection=true"
        client: pymongo.MongoClient[Any] = pymongo.MongoClient(direct, serverSelectionTimeoutMS=1000)
        member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
        with client:
            try:
                hello = client.admin.command("hello")
                if "setName" not in hello:
                    client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [member]})
            except OperationFailure as error:
                if error.code != 23:  # AlreadyInitialized: it reads its configuration back after a restart
                    raise
                return False
            except PyMongoError:
                return False
            return bool(hello.get("isWritablePrimary"))


FIRST_TOO_NEW = (4, 18)
"""The first PyMongo that asks a server for wire version 9; mongo-java-server speaks 8."""


def _require_old_client() -> None:
    """Raise `NotInstalledError` where PyMongo would refuse the server: it would look as if that never came up."""
    import pymongo

    if pymongo.version_tuple[:2] >= FIRST_TOO_NEW:
        raise NotInstalledError(
            f"PyMongo {pymongo.version} does not speak with mongo-java-server, and there is no mongod on the PATH",
            remedy="set TPC_MONGO to a server of your own, install mongod, or pip install 'pymongo<4.18'.",
        )


class MongoJavaServer(LocalServer):
    """A mongo-java-server at `uri`. Data survive `stop`, not `kill`."""

    name = "mongo"
    notes = STAND_IN_NOTES

    def __init__(
        self, directory: Path | str, *, heap: str = "256m", report: Report | None = None, **limits: Any
    ) -> None:
        super().__init__(directory, **limits)
        self.heap = heap
        self.report = report

    @property
    def uri(self) -> str:
        """A connection string."""
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def address(self) -> str:
        """The same as `uri`."""
        return self.uri

    def _set_up(self) -> None:
        _require_old_client()
        jars = jar_set("mongo", report=self.report, cancelled=self.cancelled)
        self._class_path = f"{jars[0].parent / '*'}:{_py4j_jar()}"
        self.log_path.touch(mode=0o600)  # the gateway writes its secret there, for the moment that it is open

    def _launch(self) -> OwnedProcess:
        offset = self.log_path.stat().st_size
        process = OwnedProcess(
            [
                *(find_java(), f"-Xmx{self.heap}", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", self._class_path),
                *("py4j.GatewayServer", "--enable-auth", "0"),
            ],
            log_path=self.log_path,
            directory=self.directory,
        )
        try:
            self._build(*self._gateway(process, offset))
        except BaseException:
            process.kill()
            raise
        return process

    def _gateway(self, process: OwnedProcess, log_offset: int) -> tuple[int, str]:
        """The gateway's port and secret, which it prints first."""

        def printed() -> list[str]:
            return read_from(self.log_path, log_offset).split("\n")[:-1]

        until(lambda: len(printed()) >= 2 or not process.alive, GATEWAY_TIMEOUT_S, pause_max_s=POLL_S)
        if len(printed()) < 2:
            raise LocalServerError(f"the mongo server did not come up: {tail(self.log_path, offset=log_offset)}")
        port, secret = printed()[:2]
        return int(port), secret

    def _build(self, gateway_port: int, secret: str) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway
        from py4j.protocol import Py4JError

        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=gateway_port, auth_token=secret, read_timeout=GATEWAY_TIMEOUT_S)
        )
        java = gateway.jvm
        try:
            backend = java.de.bwaldvogel.mongo.backend.h2.H2Backend(str(self.directory / "mongo.h2"))
            server = java.de.bwaldvogel.mongo.MongoServer(backend)
            self._prepare(gateway, server)
            server.bind("127.0.0.1", self.port)
            runnable = java.java.lang.Class.forName("java.lang.Runnable")
            at_exit = java.java.beans.EventHandler.create(runnable, server, "shutdownNow")
            java.java.lang.Runtime.getRuntime().addShutdownHook(java.java.lang.Thread(at_exit))
        except Py4JError as error:
            raise LocalServerError(f"the mongo server did not come up: {error}") from error
        gateway.shutdown()

    def _prepare(self, gateway: Any, server: Any) -> None:
        """What is done to the server before it listens."""

    def _answers(self) -> bool:
        import pymongo
        from pymongo.errors import PyMongoError

        if not self._listens():
            return False
        client: pymongo.MongoClient[Any] = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=1000)
        with client:
            try:
                client.admin.command("ping")
            except PyMongoError:
                return False
        return True


MongoServer = MongodServer | MongoJavaServer


def mongo_server(directory: Path | str, *, report: Report | None = None, **limits: Any) -> MongoServer:
    """The best MongoDB that this machine has, not started."""
    if shutil.which("mongod"):
        return MongodServer(directory, **limits)
    return MongoJavaServer(directory, report=report, **limits)


def _py4j_jar() -> Path:
    import pyspark

    versions = sorted((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    if not versions:
        raise NotInstalledError("this PySpark has no py4j jar", remedy="install pyspark from PyPI.")
    return versions[-1]
