"""One job of a system as processes: started in a session of its own, metered, and ended with all its descendants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

SAMPLE_S = 0.3
END_S = 10.0
START_S = 180.0


class JobFailedError(Exception):
    """A job ended, or did not begin; the message has the end of its log."""


class RunningJob:
    """A context manager around a job's processes. `cpu_s` and `peak_mb` count the job's tree, no servers."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, *, answers: Path | None = None
    ) -> None:
        self.log = log
        self.started_at = time.time()
        self.peak_mb = 0
        self._cpu_s: dict[int, float] = {}
        with log.open("wb") as errors, answers.open("wb") if answers else nullcontext(errors) as output:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=log.parent,
            )
        self._tree: dict[int, psutil.Process] = {}
        self._ended = threading.Event()
        self._meter = threading.Thread(target=self._sample, name="meter", daemon=True)
        self._meter.start()

    @property
    def cpu_s(self) -> float:
        """Processor seconds so far."""
        return sum(self._cpu_s.values())

    def wait_until_started(self) -> None:
        """Return when the job has said so. Raises `JobFailedError`."""
        deadline = time.monotonic() + START_S
        while b"STARTED" not in self.log.read_bytes():
            self.require_alive()
            if time.monotonic() > deadline:
                raise JobFailedError(f"the job did not begin within {START_S:g} s: {self.tail()}")
            time.sleep(0.1)

    def require_alive(self) -> None:
        """Raise `JobFailedError` if the job has ended."""
        if self.process.poll() is not None:
            raise JobFailedError(f"the job ended with {self.process.returncode}: {self.tail()}")

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            size = 0
            with suppress(psutil.Error):
                root = psutil.Process(self.process.pid)
                for process in [root, *root.children(recursive=True)]:
                    self._tree[process.pid] = process
            for pid, process in list(self._tree.items()):
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    self._cpu_s[pid] = times.user + times.system
                    size += process.memory_info().rss
            self.peak_mb = max(self.peak_mb, size >> 20)

    def end(self) -> None:
        """End the job and whatever it has started; a second call does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._meter.join()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            left = [process for process in self._tree.values() if process.is_running()]
            for process in left:
                with suppress(psutil.Error):
                    process.send_signal(number)
            psutil.wait_procs(left, timeout=END_S)
        self.process.wait(END_S)

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.end()


def run_script(
    command: Sequence[str], directory: Path, limit_s: float, *, name: str = "job", ends_with: int = 0
) -> list[dict[str, Any]]:
    """Run a job that ends by itself: its lines of JSON.

    Raises `JobFailedError` when it ends otherwise than with `ends_with`, or not within `limit_s`.
    """
    answers = directory / f"{name}.jsonl"
    with RunningJob(command, {}, directory / f"{name}.log", answers=answers) as job:
        try:
            code = job.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise JobFailedError(f"the job did not end within {limit_s:g} s: {job.tail()}") from error
        if code != ends_with:
            raise JobFailedError(f"the job ended with {code}: {job.tail()}")
    return [json.loads(line) for line in answers.read_text().splitlines()]
