"""One life of a driver: a real process that runs the pipeline to the end of its input, on a warm JVM or without.

Lives are forked from a server process that has imported everything already. Nothing here knows what a case is.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tpc.chaos.faults.injector import Injector
from tpc.chaos.matrix.pipeline import PipelineUnderTest
from tpc.chaos.matrix.sessions import Gateway
from tpc.coordinator.operations.supervision.exit_codes import exit_code_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.context import ForkServerProcess

    from tpc.chaos.faults.fault import StepFault

PRELOADED = (
    "pyspark.sql",
    "pyspark.sql.functions",
    "pyspark.java_gateway",
    "pandas",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "confluent_kafka",
    "confluent_kafka.admin",
    "kafka",
    "kafka.admin",
    "psycopg",
    "pymongo",
    "sqlite3",
    "tpc.chaos.matrix.lives",
    "tpc.chaos.matrix.service_pipeline",
    "tpc.coordinator.service.exact_columns",
    "tpc.coordinator.service.row_batches",
    "tpc.coordinator.service.service",
    "tpc.coordinator.service.state.committer",
    "tpc.coordinator.service.state.state",
    "tpc.coordinator.spark.pipeline",
    "tpc.sinks.files.committer",
    "tpc.sinks.kafka.changelog.committer",
    "tpc.sinks.kafka.driver.committer",
    "tpc.sinks.kafka.offsets.committer",
    "tpc.sinks.kafka.source.reader",
    "tpc.sinks.mongo.committer",
    "tpc.sinks.postgres.committer",
)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Order:
    """What one life is to do. `doctor` is a "module:function" called first: a test's way to break the library."""

    pipeline: PipelineUnderTest
    gateway: Gateway | None
    life: int
    log: Path
    takeover: bool = False
    standby: bool = False
    doctor: str | None = None


class DriverLife:
    """A running driver; its standard output and error go to the order's log."""

    def __init__(self, order: Order, faults: Mapping[int, StepFault]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        self.number = order.life
        self.began_at = time.time()
        self.ended_at: float | None = None
        """When its end was noticed, in seconds since 1970; None while it lives."""
        self._process: ForkServerProcess = context.Process(target=_live, args=(order, dict(faults)), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As a supervisor sees it; negative: a signal; None while it lives."""
        return self._process.exitcode

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; False if it has not come in time."""
        self._process.join(max(timeout_s, 0.0))
        if self.ended_at is None and self._process.exitcode is not None:
            self.ended_at = time.time()
        return self.ended_at is not None

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP has stopped it."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def kill(self) -> None:
        """SIGKILL, for one that is stopped too, and wait for its end."""
        self._process.kill()
        self._process.join(10.0)


def _live(order: Order, faults: Mapping[int, StepFault]) -> None:
    _end_with_parent()
    _write_to(order.log)
    logger = logging.getLogger("tpc.chaos.matrix")
    code = 1
    try:
        logger.info("life %d begins, process %d", order.life, os.getpid())
        code = exit_code_for(_run(order, faults))
    except BaseException:
        logger.exception("life %d failed", order.life)
    logger.info("life %d ends with exit code %d", order.life, code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # not through the exit handlers of a JVM's client: the JVM goes on


def _run(order: Order, faults: Mapping[int, StepFault]) -> BaseException | None:
    """What ended the pipeline; None when it has read all of its input."""
    if order.doctor is not None:
        module, _, name = order.doctor.partition(":")
        getattr(importlib.import_module(module), name)()
    pipeline = order.pipeline
    Injector(pipeline.directory, order.life, os.getpid(), dict(faults), is_watched=pipeline.is_brief).install()
    try:
        pipeline.run(order.gateway, takeover=order.takeover, standby=order.standby)
    except Exception as error:
        logging.getLogger("tpc.chaos.matrix").exception("life %d: the pipeline ended", order.life)
        return error
    return None


def _write_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True, stream=sys.stderr
    )
    logging.getLogger("tpc").setLevel(logging.INFO)
    logging.getLogger("kafka.net").setLevel(logging.ERROR)  # it tells of every tenth of a second on a busy machine


def _end_with_parent() -> None:
    """SIGKILL when the server that forked this process is gone, also while stopped. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
