"""How often the readers of these tests look, and waiting until one has looked."""

from __future__ import annotations

from tests.support.processes import eventually
from tpc.chaos.checkers.watching import Reader

POLL_S = 0.02


def polled(reader: Reader, times: int = 2) -> None:
    """Wait until it has looked so often again."""
    wanted = reader.seen.polls + times
    eventually(lambda: reader.seen.polls >= wanted, f"the reader of {reader.what} looks on")
