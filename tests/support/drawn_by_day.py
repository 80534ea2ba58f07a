"""Long files of which `make test` runs a sixth a day: those whose matter has a command of its own, or seldom moves.

Every file is run on one day of six; `make test DAY=` runs all of them, and so does pytest by itself. What is left to
another day is told at the end of the run, by name. One kit of a sink is run every day, and so are the demo, programs,
the cores of the matrix and of the clusters, recovery, integration, and everything of the loop: its tests, the search
through it, the kit on its states, and the core of the matrix on a service.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.longest_files import file_of

OPTION = "--by-day"
DAYS = 6
FILES = (
    # One kit a day. `make prove` runs them too.
    "tests/sinks/kafka/test_conformance.py",
    "tests/sinks/mongo/test_conformance.py",
    "tests/sinks/postgres/test_conformance.py",
    "tests/sinks/kafka/test_offsets_conformance.py",
    "tests/sinks/files/test_conformance.py",
    # The others, the longest first, so that no day is much longer than another.
    "tests/chaos/prove/test_trial.py",  # make prove
    "tests/docs/test_classified_tickets.py",
    "tests/chaos/demo/test_demo_processes.py",
    "tests/docs/test_delta_sink.py",
    "tests/coordinator/test_overwritten_offsets.py",
    "tests/coordinator/spark/test_state_schema.py",
    "tests/sinks/kafka/test_outage.py",
    "tests/sinks/kafka/test_secured.py",  # make clusters
    "tests/testing/test_reference.py",
    "tests/testing/test_broken_deaths.py",
    "tests/testing/test_broken_commits.py",
    "tests/testing/test_broken_markers.py",
    "tests/testing/test_broken_prepares.py",
    "tests/coordinator/spark/test_late_executors.py",
    "tests/coordinator/operations/savepoints/test_fork.py",
    "tests/coordinator/kernel/log/test_conformance_sql.py",
    "tests/chaos/servers/test_server.py",
    "tests/integration/test_after_the_decision.py",
    "tests/chaos/simulator/test_state_machine.py",  # make prove
    "tests/chaos/simulator/test_simulation.py",  # make prove
    "tests/coordinator/operations/savepoints/test_elsewhere.py",
    "tests/coordinator/operations/savepoints/test_move.py",
    "tests/coordinator/operations/page/test_in_a_browser.py",
    "tests/docs/test_pairing.py",
    "tests/clusters/test_records.py",
    "tests/chaos/explorer/test_explorer.py",  # make prove
    "tests/chaos/user/test_command.py",
    "tests/chaos/matrix/test_special_cases.py",  # make chaos
    "tests/coordinator/kernel/log/test_conformance_object.py",
    "tests/test_packaging.py",
    "tests/testing/test_broken_sinks.py",
    "tests/testing/test_broken_data.py",
    "tests/testing/test_broken_handles.py",
    "tests/testing/test_broken_owners.py",
    "tests/testing/test_broken_sizes.py",
    "tests/chaos/matrix/test_power.py",  # make chaos
    "tests/chaos/servers/test_kafka.py",
    "tests/chaos/servers/test_stack.py",
    "tests/coordinator/test_spark_submit.py",
    "tests/chaos/proxy/test_rules_on_kafka.py",
    "tests/sinks/kafka/test_owner.py",
    "tests/chaos/user/test_run.py",
    "tests/sinks/mongo/test_secured.py",  # make clusters
    "tests/chaos/servers/test_jars.py",
    "tests/sinks/kafka/test_check.py",
    "tests/chaos/authoring/test_authoring.py",
    "tests/chaos/checkers/test_watch_kafka.py",
    "tests/docs/test_sqlite_sink.py",
    "tests/sinks/kafka/test_capacity.py",
    "tests/docs/test_valkey_sink.py",
    "tests/sinks/kafka/test_source_kit.py",
)


def left_out(day: date) -> list[str]:
    """The files that another day runs."""
    return [file for number, file in enumerate(FILES) if (day.toordinal() + number) % DAYS]


def summary(day: date) -> Iterator[str]:
    """What is told at the end of a run of that day."""
    others = left_out(day)
    yield f"{len(others)} of the {len(FILES)} files that are drawn by the day; `make test DAY=` runs them too:"
    yield from (f"  {file}" for file in others)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that `make test` gives."""
    parser.addoption(OPTION, action="store_true", help=f"of the long files run today's, one in {DAYS}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is another day's."""
    if not config.getoption(OPTION):
        return
    others = set(left_out(date.today()))
    gone = [item for item in items if file_of(item.nodeid) in others]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if file_of(item.nodeid) not in others]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell what was left out."""
    if config.getoption(OPTION):
        terminalreporter.section("left to another day")
        for line in summary(date.today()):
            terminalreporter.line(line)
