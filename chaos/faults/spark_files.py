"""What a power cut takes of Spark's checkpoint: its newest files, which Spark never makes durable by itself.

Spark writes `offsets/N` when it plans a batch and `commits/N` after it; a state store writes a changelog per batch.
Each file has a checksum file beside it, which goes the same way.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

REMOVED, TRUNCATED = "removed", "truncated"

_CHANGELOG = re.compile(r"(\d+)_.*\.changelog|(\d+)\.changelog")


def newest(checkpoint: Path, kind: str, depth: int = 1) -> list[Path]:
    """The files of the `depth` newest batches in `kind` ("offsets" or "commits"), the newest last."""
    folder = checkpoint / kind
    batches = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return [folder / str(batch) for batch in batches[-depth:]]


def newest_changelogs(checkpoint: Path) -> list[Path]:
    """Of every state store the changelogs of its newest version; after a lost attempt there are several."""
    versions: dict[Path, dict[int, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((checkpoint / "state").rglob("*.changelog")):
        if match := _CHANGELOG.fullmatch(path.name):
            versions[path.parent][int(match[1] or match[2])].append(path)
    return [path for of_store in versions.values() for path in of_store[max(of_store)]]


def take(paths: Iterable[Path], how: str) -> None:
    """Remove the files or make them empty, each with its checksum file."""
    for path in paths:
        for file in (path, path.with_name(f".{path.name}.crc")):
            if not file.exists():
                continue
            if how == REMOVED:
                file.unlink()
            else:
                os.truncate(file, 0)
