"""What a start is made of before it asks its first question: of a start, and of a command that only looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpc.coordinator.coordinator import Coordinator
from tpc.coordinator.query import PipelineQuery
from tpc.schemas import Columns
from tpc.sink import CheckContext


@dataclass(frozen=True)
class Preparation:
    """`contexts` are for the sinks' checks, `columns` go on record. Nothing is open yet; close `coordinator`."""

    coordinator: Coordinator
    query: PipelineQuery
    contexts: Mapping[str, CheckContext]
    columns: Mapping[str, Columns]
