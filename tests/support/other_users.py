"""Programs that run as another user of the operating system: what root may start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

DAEMON, NOBODY = 1, 65534
"""Two users that every Linux has. One without a name is none: Hadoop's client wants a name."""


def as_user(user: int, group: int) -> tuple[str, ...]:
    """Put before a command: it is somebody who may read everything (an interpreter in a home directory) and write what
    is his or his group's."""
    whose = (f"--reuid={user}", f"--regid={group}", "--clear-groups")
    return ("setpriv", *whose, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--")


def can_be_another() -> bool:
    """Whether this process may become somebody else."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return False
    tried = [*as_user(NOBODY, NOBODY), sys.executable, "-c", ""]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0
