"""What lies where in a demo's directory, and the results that stay in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tpc.chaos.checkers.compare import Check
from tpc.chaos.flights.shown import Places
from tpc.chaos.reports.demo import write_report
from tpc.chaos.running.run_directory import RunDirectory
from tpc.chaos.servers import kept
from tpc.chaos.servers.stack import VARIABLES
from tpc.errors import ConfigurationError, LocalStackError

VERDICT_FILE, REPORT_FILE, RUN_FILE = "verdict.json", "report.html", "run.json"


@dataclass(frozen=True)
class DemoDirectory(RunDirectory):
    """See `RunDirectory`."""

    KNOWN: ClassVar[tuple[str, ...]] = (
        *RunDirectory.KNOWN,
        *("checkpoint", "files", "commits", "scratch"),
        *(VERDICT_FILE, REPORT_FILE, RUN_FILE),
    )

    @property
    def checkpoint(self) -> Path:
        """The pipeline's checkpoint, its log included."""
        return self.root / "checkpoint"

    @property
    def files(self) -> Path:
        """The file sink's target."""
        return self.root / "files"

    @property
    def commits(self) -> Path:
        """Copies of Spark's commit records, which it keeps for a hundred batches only."""
        return self.root / "commits"

    @property
    def scratch(self) -> Path:
        """Spark's temporary files, and the run's."""
        return self.root / "scratch"

    @property
    def steps(self) -> Path:
        """Where the lives record steps and kills."""
        return self.scratch / "steps"

    def places(self, environment: Mapping[str, str]) -> Places:
        """Where a run wrote, given the servers' addresses. Raises `ConfigurationError` when one is not named."""
        missing = [variable for variable in VARIABLES.values() if variable not in environment]
        if missing:
            raise ConfigurationError(
                f"the demo wrote to a server of your own, and {', '.join(missing)} does not say where it is",
                remedy="set the variable as it was when the demo ran.",
            )
        return Places(
            environment["TPC_KAFKA"],
            environment["TPC_POSTGRES"],
            environment["TPC_MONGO"],
            self.checkpoint,
            self.files,
            self.commits,
        )

    def claim(self) -> None:
        """As in `RunDirectory`. Raises `ConfigurationError` too when it holds servers that were kept."""
        if (self.servers / kept.FILE_NAME).exists():
            raise ConfigurationError(
                f"{self.root} holds the servers of an earlier demo that were kept",
                remedy="end them with `tpc demo --stop`, or choose another directory with --dir.",
            )
        super().claim()


def write_results(run: Mapping[str, Any], paths: DemoDirectory, checks: list[Check]) -> None:
    """Write the run as it was seen, the verdict and the report."""
    (paths.root / RUN_FILE).write_text(json.dumps(run, indent=1))
    verdict = verdict_json(run, checks)
    (paths.root / VERDICT_FILE).write_text(json.dumps(verdict, indent=1))
    write_report(paths.root / REPORT_FILE, verdict)


def verdict_json(run: Mapping[str, Any], checks: list[Check]) -> dict[str, Any]:
    """The verdict as it is in its file: one record per check, kill and epoch, and the run they belong to."""
    return {
        "passed": all(check.passed for check in checks),
        "checks": [check.to_json() for check in checks],
        "kills": run["kills"],
        "epochs": run["epochs"],
        "run": {key: run[key] for key in ("settings", "began_at", "stages", "lives", "seen", "kills")},
    }


def recorded(paths: DemoDirectory) -> dict[str, Any]:
    """The run that `write_results` wrote. Raises `LocalStackError` when there is none."""
    path = paths.root / RUN_FILE
    if not path.exists():
        raise LocalStackError(f"no demo has been run in {paths.root}", remedy="run `tpc demo --keep` first.")
    run: dict[str, Any] = json.loads(path.read_text())
    return run
