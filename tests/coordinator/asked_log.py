"""Asks a log all that needs no Spark, in a process that ends at once when Spark is imported; prints the answers.

`python -m tests.coordinator.asked_log PLACE`: JSON, each question with its exit code and its answer. The last questions
change the log.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

SPARK_IS_IMPORTED = 99
COMMANDS = {
    "status": ["status", "{}"],
    "status for a program": ["status", "{}", "--json"],
    "history": ["history", "{}"],
    "history of offsets": ["history", "{}", "--offsets"],
    "history for a program": ["history", "{}", "--json", "--last", "2"],
    "show": ["show", "{}", "1"],
    "show of records": ["show", "{}", "1", "--raw"],
    "show of no epoch": ["show", "{}", "7"],
    "log check": ["log", "check", "{}"],
    "log check for a program": ["log", "check", "{}", "--json"],
    "watch": ["watch", "{}", "--once"],
    "doctor": ["doctor", "{}"],
}
DECISION = {
    "resolve of another epoch": ["resolve", "{}", "--epoch", "1", "--sink", "a", "--accept-loss", "--reason", "gone"],
    "resolve": ["resolve", "{}", "--epoch", "2", "--sink", "a", "--accept-loss", "--reason", "gone"],
    "status afterwards": ["status", "{}"],
}
PAGES = {"pages": "/", "page": "/pipelines/0", "page of an epoch": "/pipelines/0/epochs/1"}
QUESTIONS = (*COMMANDS, "positions", "positions decided", *PAGES, *DECISION)
Answer = tuple[int, str]


class NoSpark(importlib.abc.MetaPathFinder):
    """Ends the process when it is asked for a module of Spark, whoever would catch an error."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """See `importlib.abc.MetaPathFinder`; finds nothing."""
        if name.partition(".")[0] in ("pyspark", "py4j"):
            os.write(2, f"{name} is imported".encode())
            os._exit(SPARK_IS_IMPORTED)


def answers(place: str) -> dict[str, Answer]:
    """Every question's, in the order of `QUESTIONS`."""
    from functools import partial

    import tpc
    from tests.coordinator.operations.page.logs import Site
    from tpc.coordinator.operations.commands.targets import place_named

    found = {name: _commanded(words, place) for name, words in COMMANDS.items()}
    found["positions"] = _called(lambda: tpc.positions(place))
    found["positions decided"] = _called(lambda: tpc.positions(place, decided=True))
    site = Site(partial(place_named, place))
    found |= {name: (0, site.text(path)) for name, path in PAGES.items()}
    return found | {name: _commanded(words, place) for name, words in DECISION.items()}


def _commanded(words: Sequence[str], place: str) -> Answer:
    from typer.testing import CliRunner

    from tpc.__main__ import app

    result = CliRunner().invoke(app, [word.format(place) for word in words])
    return result.exit_code, result.output + ("" if result.exception is None else str(result.exception))


def _called(ask: Callable[[], object]) -> Answer:
    return 0, str(ask())


if __name__ == "__main__":
    sys.meta_path.insert(0, NoSpark())
    sys.stdout.write(json.dumps(answers(sys.argv[1])))
