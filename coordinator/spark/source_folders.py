"""Which folder of `sources/` belongs to which line of `offsets/N`: a source that a query reads twice has one folder.

Spark makes one source of equal relations (a DataFrame in a union with itself), and numbers the folders by the sources.
The lines of `offsets/N` are by the relations, in format v1 (PySpark 4.0.5, tried with unions, joins and CTEs). Format
v2 has a line for each source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.plan_checks import plan_nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RELATIONS = "Streaming"
"""What the names of the nodes begin with that stand for a source."""


def source_folders(frame: DataFrame) -> tuple[int, ...]:
    """For each relation of a streaming DataFrame, in Spark's order, the number of its source's folder."""
    sources: list[Any] = []
    folders = []
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        if node.getClass().getSimpleName().startswith(_RELATIONS):
            number = next((number for number, one in enumerate(sources) if one.equals(node)), len(sources))
            if number == len(sources):
                sources.append(node)
            folders.append(number)
    return tuple(folders)


def by_folder(lines: Sequence[str], folders: Sequence[int]) -> dict[int, str]:
    """Folder -> its line, of the lines of one `offsets/N`.

    Where `folders` are not those of these lines, as in format v2, each line has its own.
    """
    numbers = folders if len(folders) == len(lines) else range(len(lines))
    return dict(zip(numbers, lines, strict=True))
