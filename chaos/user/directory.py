"""What lies where in the directory of a run on a user's pipeline."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tpc.chaos.running.run_directory import RunDirectory

VARIABLE = "TPC_CHAOS_DIR"
"""Names to the user's functions a directory that is new in every run: for checkpoint, files, Spark's scratch files."""


@dataclass(frozen=True)
class UserRunDirectory(RunDirectory):
    """See `RunDirectory`."""

    KNOWN: ClassVar[tuple[str, ...]] = (*RunDirectory.KNOWN, "work", "steps", "tmp", "chaos.json", "chaos.html")

    @property
    def work(self) -> Path:
        """The user's; see `VARIABLE`."""
        return self.root / "work"

    @property
    def steps(self) -> Path:
        """Where the lives record steps and faults."""
        return self.root / "steps"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the lives: who is killed does not tidy up."""
        return self.root / "tmp"

    @property
    def result(self) -> Path:
        """The record of the run."""
        return self.root / "chaos.json"

    @property
    def report(self) -> Path:
        """The record for people."""
        return self.root / "chaos.html"

    def environment(self, *importable: Path) -> dict[str, str]:
        """Of a life's process: the modules in `importable` and here are found, and the user's functions find `work`."""
        path = os.pathsep.join(filter(None, (*map(str, importable), str(Path.cwd()), os.environ.get("PYTHONPATH"))))
        temporary = str(self.temporary)  # who is killed leaves his scratch files
        ours = {"PYTHONPATH": path, "TMPDIR": temporary, VARIABLE: str(self.work)}
        return {"SPARK_LOCAL_DIRS": temporary, **os.environ, **ours}

    def claim(self) -> None:
        """As in `RunDirectory`; then the places in it that the run needs are there."""
        super().claim()
        for path in (self.work, self.steps, self.temporary):
            path.mkdir(parents=True)

    def tidy(self, *, keep_work: bool) -> None:
        """Leave the record, the report and the log; and for a look the user's files."""
        for path in (self.servers, self.steps, self.temporary, *(() if keep_work else (self.work,))):
            shutil.rmtree(path, ignore_errors=True)
