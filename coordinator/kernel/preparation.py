"""What a start is made of before it asks its first question: of a start, and of a command that only looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.schemas import Columns
from tpc.sink import CheckContext


@dataclass(frozen=True)
class Preparation:
    """`contexts` are for the sinks' checks, `columns` go on record. Nothing is open yet; close `coordinator`."""

    coordinator: Coordinator
    contexts: Mapping[str, CheckContext]
    columns: Mapping[str, Columns]
    ask_others: Callable[[bool], None]
    """Asks the other processes of the job, with whether an answer is required: executors for what the sinks' writers
    need there, after what was decided is finished, since that needs none of them; or the shards of a service."""
    ask_sources: Callable[[], None]
    """Asks the sources whether they are what was read, and still have what comes next."""
