"""The cluster that all cases share, and the session on it: one at a time, since it takes every core."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.clusters.spark import events
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.sessions import WarmSession
from tpc.chaos.servers.spark_standalone import TWO_HOSTS, StandaloneCluster
from tpc.chaos.servers.stack import Stack
from tpc.errors import LocalServerError
from tpc.support.deadlines import until

EXECUTORS = len(TWO_HOSTS)
WHOLE_WITHIN_S = 60.0


class ClusterBench(MatrixBench):
    """A bench whose sessions are on a cluster; a new one where settings differ."""

    def __init__(self, directory: Path, stack: Stack, exits: ExitStack) -> None:
        super().__init__(directory, stack, exits, sessions=0)
        self.cluster = StandaloneCluster(directory / "cluster", TWO_HOSTS)
        exits.callback(self.cluster.close)
        self._settings: Mapping[str, str] = {}
        self._number = 0
        exits.callback(self.end_session)

    @property
    def _events(self) -> Path:
        return self.directory / f"events-{self._number}"

    def whole_session(self, settings: Mapping[str, str]) -> WarmSession:
        """A session with `settings`, on all workers. Raises `LocalServerError` when its executors do not come."""
        self.cluster.start_workers()
        session = self.session(settings)
        if not settings and not until(lambda: events.executors(self.events()) == EXECUTORS, WHOLE_WITHIN_S):
            raise LocalServerError(f"the session had not {EXECUTORS} executors within {WHOLE_WITHIN_S:g} s")
        return session

    def session(self, settings: Mapping[str, str]) -> WarmSession:
        """A session with `settings` beside the cluster's: the one there is, a new one after its end."""
        if self.sessions and self._settings != settings:
            self.end_session()
        if not self.sessions:
            self._number += 1
            self._settings = settings
            self._events.mkdir()
            chosen = {
                **self.cluster.settings,
                **events.SETTINGS,
                "spark.eventLog.dir": str(self._events),
                "spark.decommission.enabled": "true",
                **settings,
            }
            session = WarmSession(self.directory / f"session-{self._number}", chosen)
            self.sessions.append(session)
            session.gateway  # noqa: B018  waits until the JVM is up
        return self.sessions[0]

    def events(self) -> list[events.Event]:
        """What Spark has said of the session."""
        return events.read(self._events)

    def end_session(self) -> None:
        """SIGKILL to its JVM, its holder and their children; its executors follow. The next case gets a new one."""
        for session in self.sessions:
            session.close()
        self.sessions.clear()
