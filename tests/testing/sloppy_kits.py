"""The kit on every sloppy sink; `test_broken_sinks.py` runs of it the tests that must reject them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.steps import before_each
from tests.testing.directory_kit import DirectoryKit
from tests.testing.sloppy_sinks import SLOPPY
from tpc.sink import Sink
from tpc.testing import directory_sink


class ForgetfulKit(DirectoryKit):
    large_branch_rows = 2_000
    commit_steps = ("rename", "sync")

    @contextmanager
    def at_step(self, sink: Sink, step: str, action: Callable[[], None]) -> Iterator[None]:
        place, name = {"rename": (Path, "rename"), "sync": (directory_sink, "sync")}[step]
        with before_each(place, name, action):
            yield


for _sloppy in SLOPPY:
    globals()[f"Test{_sloppy.__name__}"] = type(f"Test{_sloppy.__name__}", (ForgetfulKit,), {"sink_class": _sloppy})
