"""A disk that can be filled and made read-only, for the logs that lie on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tpc.chaos.faults import small_disk
from tpc.chaos.faults.small_disk import SmallDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A mounted file system of 64 KB."""
    if reason := small_disk.why_not():
        pytest.skip(f"a tmpfs cannot be mounted here: {reason}")
    with small_disk.mounted(tmp_path / "small") as disk:
        yield disk
