"""A demo's directory: what lies where in it, whose it is, and the results that stay in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.flights.shown import Places
from tpc.chaos.reports.demo import write_report
from tpc.chaos.running.run_directory import claim_directory
from tpc.chaos.servers import kept
from tpc.chaos.servers.stack import VARIABLES
from tpc.errors import ConfigurationError, LocalStackError

VERDICT_FILE, REPORT_FILE, RUN_FILE, PIPELINE_LOG = "verdict.json", "report.html", "run.json", "pipeline.log"


@dataclass(frozen=True)
class Layout:
    """What lies where in a demo's directory."""

    directory: Path

    @property
    def servers(self) -> Path:
        """The servers' data and logs."""
        return self.directory / "servers"

    @property
    def checkpoint(self) -> Path:
        """The pipeline's checkpoint, its log included."""
        return self.directory / "checkpoint"

    @property
    def files(self) -> Path:
        """The file sink's target."""
        return self.directory / "files"

    @property
    def commits(self) -> Path:
        """Copies of Spark's commit records, which it keeps for a hundred batches only."""
        return self.directory / "commits"

    @property
    def scratch(self) -> Path:
        """Spark's temporary files."""
        return self.directory / "scratch"

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


def claim(layout: Layout, more: tuple[str, ...] = ()) -> None:
    """Make the directory ours: empty but for what an earlier run left, its files named in `more` included.

    Raises `ConfigurationError`.
    """
    if (layout.servers / kept.FILE_NAME).exists():
        raise ConfigurationError(
            f"{layout.directory} holds the servers of an earlier demo that were kept",
            remedy="end them with `tpc demo --stop`, or choose another directory with --dir.",
        )
    folders = (layout.servers, layout.checkpoint, layout.files, layout.commits, layout.scratch)
    files = (VERDICT_FILE, REPORT_FILE, RUN_FILE, PIPELINE_LOG, *more)
    claim_directory(layout.directory, [*(path.name for path in folders), *files])


def write_results(run: Mapping[str, Any], layout: Layout, checks: list[Check]) -> None:
    """Write the run as it was seen, the verdict and the report."""
    (layout.directory / RUN_FILE).write_text(json.dumps(run, indent=1))
    found = verdict_json(run, checks)
    (layout.directory / VERDICT_FILE).write_text(json.dumps(found, indent=1))
    write_report(layout.directory / REPORT_FILE, found)


def verdict_json(run: Mapping[str, Any], checks: list[Check]) -> dict[str, Any]:
    """The verdict as it stands in its file: one record per check, kill and epoch, and the run they belong to."""
    return {
        "passed": all(check.passed for check in checks),
        "checks": [check.to_json() for check in checks],
        "kills": run["kills"],
        "epochs": run["epochs"],
        "run": {key: run[key] for key in ("settings", "began_at", "stages", "lives", "seen", "kills")},
    }


def recorded(layout: Layout) -> dict[str, Any]:
    """The run that `write_results` wrote. Raises `LocalStackError` when there is none."""
    path = layout.directory / RUN_FILE
    if not path.exists():
        raise LocalStackError(f"no demo has been run in {layout.directory}", remedy="run `tpc demo --keep` first.")
    run: dict[str, Any] = json.loads(path.read_text())
    return run
