"""What a file sink's directory shows to a reader who goes by its manifests, read with plain JSON and Arrow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

OWN = "_tpc"


def manifests(directory: Path, pipeline: str | None = None) -> list[Path]:
    """The manifests, of one pipeline's if it is named, in the order of their epochs. None without a directory."""
    owner = "*" if pipeline is None else f"tpc~{pipeline}~*"
    return sorted((directory / OWN / "manifests").glob(f"{owner}/*/*/*.json"), key=lambda path: path.name)


def files_of(manifest: Path, directory: Path) -> list[Path]:
    """The files that a manifest names."""
    return [directory / entry["file"] for entry in json.loads(manifest.read_bytes())["files"]]


def published(directory: Path, pipeline: str | None = None) -> list[Path]:
    """The files that manifests name, in the order of their epochs; one that two manifests name stands twice."""
    return [path for manifest in manifests(directory, pipeline) for path in files_of(manifest, directory)]


def epoch_files(directory: Path, pipeline: str | None = None) -> dict[int, list[Path]]:
    """The files that the manifests of each epoch name."""
    by_epoch: dict[int, list[Path]] = {}
    for manifest in manifests(directory, pipeline):
        by_epoch.setdefault(int(manifest.stem), []).extend(files_of(manifest, directory))
    return by_epoch


def read_parquet(directory: Path) -> pyarrow.Table:
    """The rows of all published files. Raises Arrow's error when one is missing or damaged."""
    import pyarrow
    from pyarrow import parquet

    return pyarrow.concat_tables([parquet.read_table(path) for path in published(directory)])


def unpublished(directory: Path, pipeline: str | None = None) -> list[str]:
    """The names of what lies in the directory and no manifest names."""
    unnamed = (path.name for path in unpublished_files(directory))
    return sorted(name for name in unnamed if pipeline is None or name.startswith(f"tpc~{pipeline}~"))


def unpublished_files(directory: Path) -> list[Path]:
    """What lies in the directory and no manifest names: staged files, and files renamed without a manifest."""
    named = set(published(directory))
    places = [place for place in (directory / OWN / "staging", directory) if place.is_dir()]
    return [path for place in places for path in place.iterdir() if path.is_file() and path not in named]


def interrupted_puts(directory: Path, pipeline: str | None = None) -> list[str]:
    """Temporary files of manifests and owner entries that somebody died while putting."""
    owner = "*" if pipeline is None else f"tpc~{pipeline}~*"
    places = [place for kind in ("manifests", "owners") for place in (directory / OWN / kind).glob(owner)]
    return sorted(path.name for place in places for path in place.rglob(".*") if path.is_file())
