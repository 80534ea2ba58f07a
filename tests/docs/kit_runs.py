"""The kit on an example of a sink, as its author runs it: in a directory of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TIME_LIMIT_S = 400


def run_kit(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What pytest says there."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-c", "/dev/null", "--rootdir", ".", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
