"""How the rows of one route are found in the batches of a pass: the plan that both runtimes compile routes into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RoutePlan:
    """Where a sink finds its rows in a batch: the digest column, and (the batch's name, sink's name) per column.

    A digest that is NULL marks a row that does not go this way.
    """

    sink: str
    writing: int
    digest: str
    columns: tuple[tuple[str, str], ...]
    exact: bool
    """Whether equal digests mean equal rows; with floats left out they do not."""
