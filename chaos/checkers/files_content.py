"""What a file sink's directory shows to a reader who goes by its manifests, read with plain JSON and Arrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

OWN = "_tpc"


def published(directory: Path) -> list[Path]:
    """The files that manifests name, in the order of their epochs; one that two manifests name stands twice."""
    manifests = sorted((directory / OWN / "manifests").rglob("*.json"), key=lambda path: path.name)
    return [directory / entry["file"] for path in manifests for entry in json.loads(path.read_bytes())["files"]]


def read_parquet(directory: Path) -> pyarrow.Table:
    """The rows of all published files. Raises Arrow's error when one is missing or damaged."""
    import pyarrow
    from pyarrow import parquet

    return pyarrow.concat_tables([parquet.read_table(path) for path in published(directory)])


def unpublished(directory: Path) -> list[str]:
    """What lies in the directory and no manifest names: staged files, and files renamed without a manifest."""
    staged = list((directory / OWN / "staging").iterdir())
    named = set(published(directory))
    return sorted(path.name for path in [*staged, *(p for p in directory.iterdir() if p.is_file() and p not in named)])
