"""A service whose function starts a thread where the process may take no more memory for its stack."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from typing import Any

import tpc
from tpc.sinks import FileSink
from tpc.sources import IterableSource


def job() -> tpc.Service:
    """The service, in the working directory."""
    service = tpc.service("threads", directory="service")

    @service.each(service.read(IterableSource(range(20), name="numbers")))
    def rows(number: int, out: Any) -> None:
        before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), before[1]))
        threading.stack_size(1 << 30)  # the C library keeps smaller stacks of ended threads, and gives one of them
        try:
            threading.Thread(target=int).start()
        finally:
            threading.stack_size(0)
            resource.setrlimit(resource.RLIMIT_AS, before)
        out.row("rows", {"n": number})

    service.write("rows", {"n": int}).to(FileSink("rows", name="rows"))
    service.dead_letters_to(FileSink("dead", name="dead"), max_share=1.0)
    return service
