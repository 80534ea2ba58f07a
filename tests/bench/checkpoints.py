"""What an epoch costs with its checkpoint on a local disk, on a server that speaks S3, and on HDFS: the same, in turns.

The S3 server is written in Python and shares the machine: what it takes itself is measured and distinguished. How many
requests an epoch makes is what another store's times can be multiplied with.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.records import CHECKPOINT, Results, Run
from tests.bench.running import run_script
from tests.bench.systems import JOBS
from tests.support.hdfs_server import NameNode, running_hdfs
from tests.support.s3_server import BUCKET, S3Server
from tpc.chaos.servers.spark_session import ABORTABLE_MANAGER, MANAGER_SETTING, checkpoint_manager, s3a_settings

ROWS_PER_EPOCH = 100
SKIPPED = 5
"""Epochs at the begin of each turn."""
WARM_UP_TURNS = 1
KEPT_BATCHES = 20
"""By Spark: few, so that what becomes old is deleted in every epoch that counts. The log is cut once for 201 epochs."""
LIMIT_S = 3600.0
LOCAL, S3, S3_ABORTABLE, HDFS, HDFS_ASKING = "local", "s3a", "s3a-abortable", "hdfs", "hdfs-asking"
ASKS_AGAIN = {"dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10"}
"""When HDFS's client asks again whether the NameNode knows of a block that was written; 400 by default."""
_LOG = "/tpc/log/"


@dataclass(frozen=True)
class Request:
    """One that the S3 server has answered."""

    at: float
    kind: str
    what: str
    seconds: float


class WatchedS3(S3Server):
    """Notes each request."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self._noting = threading.Lock()

    def honest(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """See `S3Server.honest`. The wait for other requests counts."""
        began = time.time()
        answer = super().honest(environ, start)
        what = f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}".replace("%2F", "/")
        with self._noting:
            self.requests.append(Request(began, _kind(environ), what, time.time() - began))
        return answer

    def between(self, began: float, ended: float, place: str) -> list[Request]:
        """Those that concern a checkpoint."""
        return [one for one in self.requests if began < one.at <= ended and f"{place}/" in one.what]


def _kind(environ: dict[str, Any]) -> str:
    method = str(environ["REQUEST_METHOD"])
    if method == "PUT" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return "copy"
    if method == "GET" and "list-type" in environ.get("QUERY_STRING", ""):
        return "list"
    return "delete" if method == "POST" and "delete" in environ.get("QUERY_STRING", "") else method.lower()


def checkpoints(work: Path, results: Results, *, turns: int, epochs: int) -> None:
    """One run for each turn of a place."""
    work.mkdir(parents=True)
    with WatchedS3().running() as server, running_hdfs(work) as (names, _):
        assert isinstance(server, WatchedS3)
        given = {
            "directory": str(work),
            "places": _places(work, names),
            "settings": _settings(server),
            "rows": ROWS_PER_EPOCH,
            "skipped": SKIPPED,
            "epochs": epochs,
            "turns": WARM_UP_TURNS + turns,
        }
        environment = [f"{name}={value}" for name, value in server.environment().items()]
        job = ["env", *environment, sys.executable, str(JOBS / "checkpoints.py"), json.dumps(given)]
        for line in run_script(job, work, LIMIT_S):
            if line["turn"] >= WARM_UP_TURNS:
                number = line["turn"] - WARM_UP_TURNS + 1
                void = None if set(line["rows"]) == {ROWS_PER_EPOCH} else f"rows of epochs: {line['rows']}"
                figures = _figures(line, server.between(line["began"], line["ended"], line["place"]))
                results.add(Run(CHECKPOINT, line["place"], 0, ROWS_PER_EPOCH * epochs, number, figures, void))


def _places(work: Path, names: NameNode) -> list[dict[str, Any]]:
    """A log beside the checkpoint where there is a default; HDFS has none.

    The manager of a local disk is the one that the documents recommend, the others are Spark's choice there.
    """
    by_default, s3, hdfs = checkpoint_manager("FileContextBased"), f"s3a://{BUCKET}", names.address

    def place(name: str, root: str, manager: str, settings: Mapping[str, str] | None = None) -> dict[str, Any]:
        log = f"sqlite:///{work / name}.db" if root == hdfs else None
        chosen = {MANAGER_SETTING: manager, **(settings or {})}
        return {"name": name, "url": f"{root}/{name}", "log": log, "settings": chosen}

    return [
        place(LOCAL, str(work), checkpoint_manager()),
        place(S3, s3, by_default),
        place(S3_ABORTABLE, s3, ABORTABLE_MANAGER),
        place(HDFS, hdfs, by_default),
        place(HDFS_ASKING, hdfs, by_default, ASKS_AGAIN),
    ]


def _settings(server: S3Server) -> dict[str, str]:
    streaming = "spark.sql.streaming"
    return {
        **s3a_settings(server.address, "key-not-to-be-seen", "secret-not-to-be-seen", abortable_manager=True),
        "spark.hadoop.dfs.replication": "1",
        f"{streaming}.minBatchesToRetain": str(KEPT_BATCHES),
        f"{streaming}.numRecentProgressUpdates": "1000",
        f"{streaming}.stateStore.maintenanceInterval": "60s",
    }


def _figures(line: dict[str, Any], requests: list[Request]) -> dict[str, float]:
    """Of one turn. Counts are those of an epoch: what lies between two completions, divided by the epochs between."""
    epochs, between = line["epochs"], len(line["epochs"]) - 1
    found: dict[str, float] = {"load": line["load"]}
    for name in epochs[0]:
        values = [one[name] for one in epochs]
        found[f"{name}_p50_ms"] = statistics.median(values)
        found[f"{name}_max_ms"] = max(values)
    found |= {f"calls_{name}": count / between for name, count in line["calls"].items()}
    for where, chosen in (("log", True), ("spark", False)):
        ours = [one for one in requests if (_LOG in one.what) is chosen]
        found[f"{where}_requests"] = len(ours) / between
        found[f"{where}_server_ms"] = 1e3 * sum(one.seconds for one in ours) / between
        for kind, count in sorted(Counter(one.kind for one in ours).items()):
            found[f"{where}_{kind}"] = count / between
    return found


EPOCH_MS = "triggerExecution_p50_ms"
_COLUMNS = {
    EPOCH_MS: "p50 ms",
    "triggerExecution_max_ms": "max ms",
    "walCommit_p50_ms": "walCommit",
    "commitOffsets_p50_ms": "commitOffsets",
    "pass_p50_ms": "pass",
    "intent_p50_ms": "intent",
    "complete_p50_ms": "complete",
    "spark_requests": "requests",
    "log_requests": "of the log",
    "load": "load",
}
"""Of the table, with the figures that they show."""


def _of_local(results: Results, name: str) -> list[float]:
    """What an epoch takes against one on a local disk, by turn: the load may change between turns."""
    by_round = {
        (run.system, run.round): run.figures[EPOCH_MS]
        for run in results.runs
        if run.kind == CHECKPOINT and run.void is None
    }
    return [
        value / by_round[LOCAL, number]
        for (system, number), value in by_round.items()
        if system == name and (LOCAL, number) in by_round
    ]


def show_checkpoints(results: Results, console: Console) -> None:
    """Medians of turns, an epoch's time against that on a local disk, and the counts."""
    table = Table(title="an epoch, medians of turns", title_justify="left")
    for column in ("checkpoint", *_COLUMNS.values(), "of local"):
        table.add_column(column, justify="left" if column == "checkpoint" else "right")
    names = list(dict.fromkeys(run.system for run in results.runs if run.kind == CHECKPOINT))
    for name in names:
        figures = [results.median(CHECKPOINT, name, figure) for figure in _COLUMNS]
        shown = ", ".join(f"{ratio:.1f}x" for ratio in _of_local(results, name))
        table.add_row(name, *("" if value is None else f"{value:,.0f}" for value in figures), shown)
    console.print(table)
    for name in names:
        turns = results.values(CHECKPOINT, name, EPOCH_MS)
        counts = {
            figure: results.median(CHECKPOINT, name, figure)
            for figure in dict.fromkeys(figure for run in results.runs if run.system == name for figure in run.figures)
            if figure.startswith(("calls_", "log_", "spark_"))
        }
        shown = ", ".join(f"{figure} {value:.1f}" for figure, value in counts.items() if value is not None)
        console.print(f"{name}: p50 of turns {', '.join(f'{value:,.0f}' for value in turns)} ms; an epoch: {shown}")
    for run in results.runs:
        if run.kind == CHECKPOINT and run.void is not None:
            console.print(f"void: {run.system}, turn {run.round}: {run.void}", markup=False)
