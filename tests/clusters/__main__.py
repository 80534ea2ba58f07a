"""`make clusters`: servers as they are run in production, the faults that strike there, rights and refusals.

One half of the cases a day (`by_day.py`), all with `--all`. Starts what it needs from packages. A record of every case
stays in build/clusters/cases.json, a report of all in build/clusters/report.html.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.clusters import ALL
from tests.clusters.by_day import HALF, half_of
from tests.clusters.records import Recorder, lines_of
from tpc.chaos.reports.clusters import write_clusters_report

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "build" / "clusters"
PLUGINS = ("-p", "tests.clusters.case_protocol", "-p", "tests.clusters.by_day")
CASES = (
    "tests/clusters",
    "tests/sinks/kafka/test_secured.py",
    "tests/sinks/postgres/test_secured.py",
    "tests/sinks/mongo/test_secured.py",
    "--ignore=tests/clusters/test_records.py",  # these are about the cases' own tools
    "--ignore=tests/clusters/test_by_day.py",
    "--ignore=tests/clusters/test_strike.py",
)


def main() -> int:
    """Run the cases; 0: all that could be run have passed, 1: one has failed or has not come to run, 2: none could."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name this expression of pytest -k selects")
    parser.add_argument("--all", action="store_true", help="all cases; else one half, the other is tomorrow's")
    parser.add_argument("--workers", type=int, default=2, help="processes that run cases, each with servers of its own")
    arguments = parser.parse_args()
    os.environ[ALL] = "yes"
    if not arguments.all and not arguments.only:
        os.environ[HALF] = str(half_of(date.today()))
    RECORDS.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(RECORDS)
    chosen = ["-k", arguments.only] if arguments.only else []
    os.chdir(ROOT)
    dealt = ["-n", str(arguments.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    pytest.main([*CASES, "-q", "-ra", *PLUGINS, *dealt, *chosen], plugins=[recorder])
    recorder.write()
    report = write_clusters_report(RECORDS / "report.html", recorder.body())
    halved = ["one half of the cases; the other is tomorrow's, --all has both"] if HALF in os.environ else []
    told = [*halved, f"record {recorder.path}", f"report {report}", *lines_of(recorder.cases, recorder.planned)]
    sys.stdout.write("\n".join(told) + "\n")
    return recorder.verdict()


if __name__ == "__main__":
    sys.exit(main())
