"""A conformance kit on a server that is not the one of `make test`: run in a process of its own, as one case."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping

from tests.support.processes import REPOSITORY

TIMEOUT_S = 600.0


def passed_in(*kits: str, environment: Mapping[str, str]) -> int:
    """How many tests of the kits have passed there; side by side, if there are several.

    A kit is a test's file, with perhaps a class. Raises AssertionError if a test has failed.
    """
    side_by_side = ("-n", str(len(kits)), "--dist", "loadscope") if len(kits) > 1 else ()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "-rfE", *side_by_side, *kits],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    return int(counted[1]) if counted else 0
