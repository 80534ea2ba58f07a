"""The kit on every sloppy sink; `test_broken_sinks.py` runs of it the tests that must reject them."""

from __future__ import annotations

from tests.testing.directory_kit import DirectoryKit
from tests.testing.sloppy_sinks import SLOPPY
from tests.testing.weak_sinks import WeakSink
from tpc.sink import Sink


class ForgetfulKit(DirectoryKit):
    large_branch_rows = 2_000

    def forget_markers(self, sink: Sink) -> None:
        assert isinstance(sink, WeakSink)
        sink.forget_markers()


for _sloppy in SLOPPY:
    globals()[f"Test{_sloppy.__name__}"] = type(f"Test{_sloppy.__name__}", (ForgetfulKit,), {"sink_class": _sloppy})
