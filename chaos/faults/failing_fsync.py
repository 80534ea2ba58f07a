"""An fsync that fails as on a broken disk: strace makes the kernel's answer to a running process an EIO."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from tpc.errors import LocalStackError
from tpc.support.deadlines import Deadline

ATTACH_TIMEOUT_S = 20.0
ENDING_TIMEOUT_S = 10.0
POLL_S = 0.02


class FailingFsync:
    """The next fsync of `path` by process `pid` fails with EIO; all others do what they do.

    `path` must exist. In effect when the constructor returns. Raises `LocalStackError` if the process cannot be
    traced.
    """

    def __init__(self, pid: int, path: Path) -> None:
        with tempfile.NamedTemporaryFile(prefix="tpc-strace-", delete=False) as file:
            self._output = Path(file.name)
        self._tracer = subprocess.Popen(
            [
                *("strace", "-f", "-p", str(pid), "-o", str(self._output), "-P", str(path)),
                *("-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = Deadline(ATTACH_TIMEOUT_S)
        while not _traced(pid, self._tracer.pid):
            if self._tracer.poll() is not None or deadline.passed:
                self.end()
                raise LocalStackError(f"process {pid} cannot be traced")
            time.sleep(POLL_S)

    @property
    def made(self) -> bool:
        """Whether the fsync has failed."""
        return self._output.exists() and "(INJECTED)" in self._output.read_text()

    def end(self) -> bool:
        """Let go of the process; whether its fsync has failed."""
        if self._tracer.poll() is None:
            self._tracer.terminate()  # strace detaches
            try:
                self._tracer.wait(ENDING_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._tracer.kill()
                self._tracer.wait()
        made = self.made
        self._output.unlink(missing_ok=True)
        return made


def _traced(pid: int, tracer: int) -> bool:
    """Whether all threads of a process are in the tracer's hands."""
    try:
        texts = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return False
    return all(f"\nTracerPid:\t{tracer}\n" in text for text in texts)


@lru_cache(maxsize=1)
def why_not() -> str | None:
    """Why no fsync can be made to fail here; None when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    return None if done.returncode == 0 else f"no process may be traced here: {done.stderr.strip()}"
