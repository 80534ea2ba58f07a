"""What a start is made of before it asks its first question: of a start, and of a command that only looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpc.coordinator.coordinator import Coordinator
from tpc.coordinator.query import PipelineQuery
from tpc.schemas import Columns
from tpc.sink import CheckContext


@dataclass(frozen=True)
class Preparation:
    """`contexts` are for the sinks' checks, `columns` go on record. Nothing is open yet; close `coordinator`.

    `ask_executors` asks them for what the sinks' writers need there, once what was decided is finished: it may have to
    wait for a cluster, and what is decided needs none.
    """

    coordinator: Coordinator
    query: PipelineQuery
    contexts: Mapping[str, CheckContext]
    columns: Mapping[str, Columns]
    ask_executors: Callable[[bool], None]
    """Called with whether an answer is required; see `tpc.coordinator.spark.executors`."""
