"""Jobs for `tpc run` without Spark. What they do goes into files of the directory `TOY_DIR`, and to standard output."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import started
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.errors import ConfigurationError, FencedError, ParkedError, TransientError

EPOCH_S = 0.3


def note(line: str) -> None:
    """Tell it, and keep it for the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    with (Path(os.environ["TOY_DIR"]) / "notes").open("a") as notes:
        notes.write(f"{line}\n")


class ToyQuery:
    """What a job needs of a `PipelineQuery`: epochs of the real engine on a pipeline in memory, until it is stopped."""

    def __init__(self) -> None:
        self._engine_of = started()
        self._stop_asked = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        epoch = 0
        while not self._stop_asked.is_set():
            runner = self._engine_of.runner()
            runner.on_prepared = lambda: time.sleep(EPOCH_S)
            note(f"begins {epoch}")
            run_epoch(self._engine_of.engine, epoch, runner)
            note(f"complete {epoch}")
            epoch += 1

    def awaitTermination(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stop_asked.set()
        self._engine_of.engine.stop()
        self._thread.join()


class DeafQuery(ToyQuery):
    """One that cannot be stopped."""

    def stop(self) -> None:
        note("deaf")
        threading.Event().wait()


class ToyPipeline(Pipeline):
    """A pipeline whose start is that of a test."""

    def __init__(self, begin: Callable[[dict[str, Any]], Any]) -> None:
        settings = EngineSettings()
        super().__init__("toy", checkpoint=None, incarnation=1, log=None, unrouted="count", settings=settings)
        self._begin = begin

    def start(self, **options: Any) -> Any:
        return self._begin(options)


def _raising(*errors: Exception) -> Pipeline:
    """One that fails with each of these, a life each, then ends well."""
    notes = Path(os.environ["TOY_DIR"]) / "notes"
    life = len(notes.read_text().splitlines()) if notes.exists() else 0

    def begin(_: dict[str, Any]) -> Any:
        note(f"life {life}")
        if life < len(errors):
            raise errors[life]
        query = ToyQuery.__new__(ToyQuery)
        query._thread = threading.Thread()
        query._thread.start()
        return query

    return ToyPipeline(begin)


def fails_twice() -> Pipeline:
    return _raising(TransientError("the server is away"), TransientError("the server is still away"))


def fenced() -> Pipeline:
    return _raising(FencedError("another coordinator leads"))


def parked() -> Pipeline:
    return _raising(ParkedError("the unique index refuses key 7", sink="a", epoch=3))


def misconfigured() -> Pipeline:
    return _raising(ConfigurationError("the table is missing", remedy="create it."))


def runs() -> Pipeline:
    return ToyPipeline(lambda _: ToyQuery())


def deaf() -> Pipeline:
    return ToyPipeline(lambda _: DeafQuery())


def starts_for_ever() -> Pipeline:
    def begin(_: dict[str, Any]) -> Any:
        note("starting")
        time.sleep(600)

    return ToyPipeline(begin)


def tells_its_options() -> Pipeline:
    def begin(options: dict[str, Any]) -> Any:
        note(f"options {options}")
        raise FencedError("that was all")

    return ToyPipeline(begin)


def needs_a_package() -> Pipeline:
    importlib.import_module("no_such_package")
    return runs()


def runs_into_a_package() -> Pipeline:
    return ToyPipeline(lambda _: importlib.import_module("no_such_package"))


def is_told_of_a_package() -> Pipeline:
    def begin(_: dict[str, Any]) -> Any:
        try:
            importlib.import_module("no_such_package")
        except ImportError as error:
            raise ConfigurationError("a sink needs no_such_package", remedy="pip install it.") from error

    return ToyPipeline(begin)


def holds() -> Pipeline:
    """Holds a checkpoint as long as it runs; its process is in the file `job`."""

    def begin(_: dict[str, Any]) -> Any:
        directory = Path(os.environ["TOY_DIR"])
        lock = CheckpointLock(directory / "checkpoint")
        lock.acquire()
        (directory / "job").write_text(str(os.getpid()))
        note("holds")
        query = ToyQuery()
        query.lock = lock  # type: ignore[attr-defined]
        return query

    return ToyPipeline(begin)
