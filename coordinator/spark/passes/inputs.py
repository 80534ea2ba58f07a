"""What the writes of a program read, and the order in which they are planned: the one on record.

A Spark checkpoint knows sources and states by their numbers in the plan. Planned in the order on record, the lines of a
program may change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.spark.passes.routes import Writing
from tpc.coordinator.spark.plan_checks import is_stateful
from tpc.coordinator.spark.source_descriptions import described, readers, relations
from tpc.source_changes import recorded_order, require_distinct
from tpc.source_records import InputRecord, Inputs

if TYPE_CHECKING:
    from typing import Any


def inputs_of(writings: Sequence[Writing]) -> Inputs:
    """What each of `writings` reads, in their order."""
    nodes: list[list[Any]] = [relations(writing.frame) for writing in writings]
    numbers = iter(readers([node for each in nodes for node in each]))
    inputs = []
    for writing, read in zip(writings, nodes, strict=True):
        session = writing.frame.sparkSession
        sources = tuple(described(node, session, next(numbers)) for node in read)
        sinks = tuple(sorted({route.sink.name for route in writing.routes}))
        inputs.append(InputRecord(writing.name, sinks, sources))
    return tuple(inputs)


def in_recorded_order(
    writings: Sequence[Writing], recorded: Inputs | None, pipeline: str
) -> tuple[list[Writing], Inputs]:
    """`writings` as they are to be planned, and what they read.

    Raises `ConfigurationError` where two of them cannot be distinguished.
    """
    inputs = inputs_of(writings)
    stateful = len(writings) > 1 and any(is_stateful(writing.frame) for writing in writings)
    require_distinct(inputs, pipeline, stateful=stateful)
    if recorded is None or len(writings) == 1:
        return list(writings), inputs
    order = recorded_order(recorded, inputs, pipeline, stateful=stateful)
    if order == sorted(order):
        return list(writings), inputs
    planned = [writings[number] for number in order]
    return planned, inputs_of(planned)
