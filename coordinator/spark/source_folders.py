"""Which folder of `sources/` belongs to which line of `offsets/N`: a source that a query reads twice has one folder.

Spark makes one source of equal relations (a DataFrame in a union with itself), and numbers the folders by the sources.
The lines of `offsets/N` are by the relations, in format v1 (PySpark 4.0.5, tried with unions, joins and CTEs). Format
v2 has a line for each source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.spark.source_descriptions import readers, relations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def source_folders(frame: DataFrame) -> tuple[int, ...]:
    """For each relation of a streaming DataFrame, in Spark's order, the number of its source's folder."""
    return readers(relations(frame))


def by_folder(lines: Sequence[str], folders: Sequence[int]) -> dict[int, str]:
    """Folder -> its line, of the lines of one `offsets/N`.

    Where `folders` are not those of these lines, as in format v2, each line has its own.
    """
    numbers = folders if len(folders) == len(lines) else range(len(lines))
    return dict(zip(numbers, lines, strict=True))
