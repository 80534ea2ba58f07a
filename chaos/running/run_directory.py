"""The directory of a run: made again, and never at the cost of something that is not of an earlier run."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tpc.errors import ConfigurationError

PIPELINE_LOG = "pipeline.log"


@dataclass(frozen=True)
class RunDirectory:
    """The directory `root`. `KNOWN` are the names of everything that a run makes in it."""

    root: Path

    KNOWN: ClassVar[tuple[str, ...]] = ("servers", PIPELINE_LOG)

    @property
    def servers(self) -> Path:
        """The local servers' data and logs."""
        return self.root / "servers"

    @property
    def pipeline_log(self) -> Path:
        """What the pipeline's processes print."""
        return self.root / PIPELINE_LOG

    def claim(self) -> None:
        """Make it ours: empty but for what an earlier run left, which goes. Raises `ConfigurationError`."""
        claim_directory(self.root, self.KNOWN)


def claim_directory(directory: Path, known: Collection[str]) -> None:
    """Make it empty; it may hold only what an earlier run has left, by the names in `known`.

    Raises `ConfigurationError` when it holds anything else, and changes nothing then, or when the file system refuses.
    """
    try:
        _claim(directory, known)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be made, or emptied of an earlier run: {error.strerror}",
            remedy="choose a directory with --dir that this user may write to.",
        ) from error


def _claim(directory: Path, known: Collection[str]) -> None:
    present = sorted(directory.iterdir()) if directory.exists() else []
    if strangers := [path.name for path in present if path.name not in known]:
        raise ConfigurationError(
            f"{directory} holds something that is not of an earlier run: {strangers[0]}",
            remedy="choose an empty directory with --dir.",
        )
    for path in present:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    directory.mkdir(parents=True, exist_ok=True)
