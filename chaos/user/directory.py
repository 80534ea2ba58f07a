"""A run's directory: what lies where in it, and whose it is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tpc.chaos.running.run_directory import claim_directory

VARIABLE = "TPC_CHAOS_DIR"
"""Names to the user's functions a directory that is new in every run: for checkpoint, files, Spark's scratch files."""


@dataclass(frozen=True)
class Layout:
    """What lies where in a run's directory."""

    directory: Path

    @property
    def servers(self) -> Path:
        """The local servers' data and logs."""
        return self.directory / "servers"

    @property
    def work(self) -> Path:
        """The user's own; see `VARIABLE`."""
        return self.directory / "work"

    @property
    def steps(self) -> Path:
        """Where the lives record steps and faults."""
        return self.directory / "steps"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the lives: who is killed does not tidy up."""
        return self.directory / "tmp"

    @property
    def log(self) -> Path:
        """What the pipeline's processes print."""
        return self.directory / "pipeline.log"

    @property
    def result(self) -> Path:
        """The record of the run."""
        return self.directory / "chaos.json"

    @property
    def report(self) -> Path:
        """The record for people."""
        return self.directory / "chaos.html"

    def claim(self) -> None:
        """Make the directory ours: empty but for what an earlier run left. Raises `ConfigurationError`."""
        known = (self.servers, self.work, self.steps, self.temporary, self.log, self.result, self.report)
        claim_directory(self.directory, [path.name for path in known])
        for path in (self.work, self.steps, self.temporary):
            path.mkdir(parents=True)

    def tidy(self, *, keep_work: bool) -> None:
        """Leave the record, the report and the log; and for a look the user's own files."""
        for path in (self.servers, self.steps, self.temporary, *(() if keep_work else (self.work,))):
            shutil.rmtree(path, ignore_errors=True)
