"""Whole processes that end or stop: servers, an executor of a cluster, a driver together with its JVM and workers.

A server comes back a second later. The driver's family is a driver on a JVM of its own; whoever follows it uses the
sessions of the bench.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import server_faults
from tpc.chaos.faults.fault import KILL, ZOMBIE
from tpc.chaos.faults.server_faults import Outage
from tpc.chaos.matrix.case import CaseFailedError
from tpc.chaos.matrix.cases.special import RESTARTS, HeldRun, OwnSessionRun, SpecialCase, held_at, ran_again
from tpc.chaos.runner.ends import FENCED
from tpc.chaos.servers.server import LocalServer
from tpc.chaos.servers.spark_standalone import StandaloneCluster, executor_of

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench

SUITE = "processes"
DOWN_S = 1.0
STOPPED_BEYOND_S = 3.0
"""How much longer than a sink's deadline a family stays stopped."""

SERVERS: Mapping[str, tuple[str, str]] = {
    "kafka": ("broker", "kafka"),
    "postgres": ("PostgreSQL", "rows"),
    "mongo": ("MongoDB", "airports"),
}
"""What a server is called, and the sink whose commit it is disturbed in."""


# Servers -----------------------------------------------------------------------------------------------------------


class ServerRun(HeldRun):
    """Readers have a gap while the server is away; the driver may end, and is started again."""

    restarts = RESTARTS

    def __init__(self, bench: MatrixBench, case: ServerCase, seed: int) -> None:
        super().__init__(bench, case, seed)
        self.server = bench.stack.servers[case.server]
        self.gently = case.gently

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        if self.gently and isinstance(self.server, LocalServer):
            return None
        return server_faults.why_not(self.server)

    def _make(self, claim: dict[str, Any]) -> None:
        assert isinstance(self.server, LocalServer)
        self.outage = Outage(self.server, DOWN_S, gently=self.gently)
        self.exits.callback(self.outage.end)

    def _recover(self) -> None:
        self.outage.end()
        super()._recover()


@dataclass(frozen=True)
class ServerCase(SpecialCase):
    """A server of the bench ends at a step and comes back."""

    server: str = ""
    gently: bool = False

    runs_as = ServerRun


def _server_cases() -> list[SpecialCase]:
    cases: list[SpecialCase] = []
    for server, (name, sink) in SERVERS.items():
        for ending, gently in (("killed", False), ("stopped and started", True)):
            if gently and server != "mongo":
                continue  # to kill is the harder fault; a stand-in for MongoDB cannot take it
            for step, of in (("epoch.prepared", None), ("epoch.decided", None), ("sink.commit", sink)):
                what = f"{name} {ending}"
                fault = held_at(step, of)
                cases.append(ServerCase(f"{step}/{what}", SUITE, fault, what=what, server=server, gently=gently))
    return cases


# A driver with its JVM and its workers -----------------------------------------------------------------------------


class FamilyRun(OwnSessionRun):
    """A killed family is followed by another driver, a stopped one is taken over from and must then end fenced."""

    restarts = RESTARTS
    stopped_at = 0.0

    def _make(self, claim: dict[str, Any]) -> None:
        stops = self.case.fault.kind == ZOMBIE
        self._signal(signal.SIGSTOP if stops else signal.SIGKILL)
        self.stopped_at = time.monotonic()

    def _end_zombies(self) -> None:
        if self.case.fault.kind != ZOMBIE:
            return
        beyond_s = self.pipeline.timeout_s + STOPPED_BEYOND_S
        time.sleep(max(0.0, self.stopped_at + beyond_s - time.monotonic()))
        self.record.note(f"all of it was stopped for {time.monotonic() - self.stopped_at:.1f} s")
        self._signal(signal.SIGCONT)
        super()._end_zombies()
        if (code := self.drivers.lives[0].exit_code) != FENCED:
            raise CaseFailedError(f"the zombie ended with exit code {code}, not fenced ({FENCED})")


@dataclass(frozen=True)
class FamilyCase(SpecialCase):
    """All processes of a driver end or stop at a step."""

    runs_as = FamilyRun


def _family_cases() -> list[SpecialCase]:
    killed = (("pass.prepared", "rows"), ("epoch.decided", None), ("sink.commit", "kafka"))
    stopped = (("pass.prepared", "rows"), ("sink.commit", "rows"), ("sink.commit", "kafka"))
    return [
        FamilyCase(f"{step}/{what}{f'/{sink}' if sink else ''}", SUITE, held_at(step, sink, kind=kind), what=what)
        for places, kind, what in (
            (killed, KILL, "driver, JVM and workers killed"),
            (stopped, ZOMBIE, "driver, JVM and workers stopped"),
        )
        for step, sink in places
    ]


# An executor of a cluster ------------------------------------------------------------------------------------------


class ExecutorRun(OwnSessionRun):
    """Spark runs the task again elsewhere; what the lost attempt has prepared must be swept."""

    restarts = RESTARTS

    def _prepare(self) -> None:
        cluster = StandaloneCluster(self.directory / "cluster")
        self.exits.callback(cluster.close)
        self.settings = cluster.settings
        super()._prepare()

    def _make(self, claim: dict[str, Any]) -> None:
        executor_of(int(claim["pid"])).kill()

    def _judge(self) -> list[Check]:
        return [*super()._judge(), ran_again(self.evidence.hits, self.case.fault)]


@dataclass(frozen=True)
class ExecutorCase(SpecialCase):
    """One of the two executors of a standalone cluster is killed while its task has a branch prepared."""

    runs_as = ExecutorRun


def _executor_cases() -> list[SpecialCase]:
    what = "executor killed"
    return [
        ExecutorCase(f"{step}/{what}/{sink}", SUITE, held_at(step, sink), what=what)
        for step, sink in (("pass.prepared", "rows"), ("pass.prepared", "files"))
    ]


def cases() -> list[SpecialCase]:
    """All cases of the suite."""
    return [*_server_cases(), *_family_cases(), *_executor_cases()]
