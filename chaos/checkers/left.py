"""What a run has left behind: everything in any system that belongs to an epoch neither committed nor aborted.

Reads only; that there is nothing is for `compare.nothing_left` to say. What a place holds of other pipelines is
passed over when the pipeline is named.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.checkers import files_content, kafka_content, mongo_content, postgres_content
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from tpc.history import History

OUTBOX = "tpc_outbox"
ENDING_WITHIN_S = 10.0
"""A broker writes the ends of a transaction after it has answered, in milliseconds normally. One that was cut off from
the others lists what it has coordinated as open until it hears of them again: seen for 1.7 s after the mending."""
_SLOT_FILE = re.compile(r"(\d{20})\.json")
_TEMPORARY_FILE = re.compile(r"\.put-(\d+)-[0-9a-f]{32}")


@dataclass(frozen=True)
class Where:
    """Where a pipeline reads and writes; a place that is None is not looked at. `pipeline` None means everybody's.

    `log` is the directory of a `LocalLog`.
    """

    pipeline: str | None
    servers: str | None = None
    dsn: str | None = None
    uri: str | None = None
    database: str = ""
    files: tuple[Path, ...] = ()
    log: Path | None = None

    @property
    def prefix(self) -> str:
        """What the names of branches and transactional ids begin with."""
        return "" if self.pipeline is None else f"tpc~{self.pipeline}~"


def left_behind(where: Where) -> dict[str, list[str]]:
    """What is there by the name of the place. Raises the clients' errors when a system does not answer."""
    left: dict[str, list[str]] = {}
    if where.dsn is not None:
        gids = postgres_content.prepared_transactions(where.dsn)
        left["PostgreSQL's prepared transactions"] = [gid for gid in gids if gid.startswith(where.prefix)]
        left["PostgreSQL's staging tables"] = postgres_content.staged_rows(where.dsn)
    if where.servers is not None:
        left["Kafka's open transactions"] = _open_transactions(where.servers, where.prefix)
    if where.uri is not None:
        parts = mongo_content.ids(where.uri, where.database, OUTBOX)
        left["MongoDB's outbox"] = [part for part in parts if part.startswith(where.prefix)]
    if where.files:
        left["staging files"] = [
            name for place in where.files for name in files_content.unpublished(place, where.pipeline)
        ]
        left["interrupted manifests"] = [
            name for place in where.files for name in files_content.interrupted_puts(place, where.pipeline)
        ]
    if where.log is not None:
        left["temporary files of the log's pruned slots"] = temporary_files(where.log)
    return left


def _open_transactions(servers: str, prefix: str) -> list[str]:
    """Those that stay open for as long as an end may take to be seen."""
    deadline = Deadline(ENDING_WITHIN_S)
    while True:
        transactions = kafka_content.ongoing_transactions(servers, prefix)
        if not transactions or deadline.passed:
            return transactions
        time.sleep(0.1)


def temporary_files(log: Path) -> list[str]:
    """What interrupted puts have left of pruned slots, those below the lowest that is there.

    Of other slots nothing is counted: what a killed put has left is removed when the log is pruned past its slot.
    """
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    slots = [int(match[1]) for name in names if (match := _SLOT_FILE.fullmatch(name))]
    floor = min(slots, default=0)
    return sorted(name for name in names if (match := _TEMPORARY_FILE.fullmatch(name)) and int(match[1]) < floor)


def unfinished_epochs(history: History) -> list[str]:
    """Epochs that the log leaves open: without an intent between two that have one, or without a complete record."""
    decided = sorted(history.manifests)
    epochs = range(decided[0], decided[-1] + 1) if decided else range(0)
    lines = [f"epoch {epoch} has no intent" for epoch in epochs if epoch not in history.manifests]
    lines += [f"epoch {epoch} is not complete" for epoch in decided if epoch not in history.completed]
    return lines + [f"slot {damaged.slot} is damaged" for damaged in history.damaged]
