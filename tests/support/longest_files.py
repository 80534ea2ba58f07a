"""Which files of a run take longest: they are begun first, and told at its end, so that growth is seen.

With `--dist loadfile` a file is never split: a long one that is begun last keeps one process busy while the others have
nothing to do. xdist by itself begins with the files of most tests, which are short ones (`--no-loadscope-reorder` turns
that off). The table here is kept by hand, and is no bound: the summary says what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pytest

LONGEST_S: dict[str, int] = {
    "tests/clusters/spark/test_faults.py": 600,
    "tests/clusters/test_moving_driver.py": 400,
    "tests/clusters/test_checkpoint_managers.py": 380,
    "tests/clusters/test_kafka_faults.py": 350,
    "tests/clusters/test_spoiled_checkpoints.py": 290,
    "tests/coordinator/spark/test_state_schema.py": 280,
    "tests/chaos/matrix/test_service.py": 280,
    "tests/clusters/test_kafka_upgrade.py": 260,
    "tests/clusters/spark/test_secured.py": 250,
    "tests/chaos/prove/test_trial.py": 240,
    "tests/clusters/test_kafka_partitions.py": 240,
    "tests/sinks/mongo/test_conformance.py": 235,
    "tests/clusters/spark/test_demo.py": 200,
    "tests/clusters/test_kafka_kits.py": 200,
    "tests/clusters/test_hdfs.py": 190,
    "tests/chaos/programs/test_programs.py": 180,
    "tests/clusters/spark/test_checkpoint_on_s3.py": 180,
    "tests/docs/test_valkey_sink.py": 170,
    "tests/chaos/matrix/test_core.py": 160,
    "tests/clusters/test_kafka_offsets.py": 160,
    "tests/chaos/demo/test_demo.py": 150,
    "tests/clusters/test_yarn.py": 150,
    "tests/docs/test_delta_sink.py": 145,
    "tests/clusters/spark/test_many_branches.py": 140,
    "tests/sinks/files/test_conformance.py": 135,
    "tests/coordinator/service/test_effects.py": 135,
    "tests/chaos/demo/test_demo_processes.py": 130,
    "tests/clusters/test_kafka_versions.py": 130,
    "tests/sinks/postgres/test_conformance.py": 125,
    "tests/coordinator/service/changelog/test_changed_lives.py": 125,
    "tests/sinks/kafka/test_conformance.py": 120,
    "tests/coordinator/service/changelog/test_lost_disk.py": 120,
    "tests/coordinator/test_overwritten_offsets.py": 120,
    "tests/clusters/test_postgres_kits.py": 120,
    "tests/sinks/kafka/test_outage.py": 115,
    "tests/sinks/kafka/test_offsets_conformance.py": 110,
    "tests/coordinator/test_recovery.py": 100,
    "tests/integration/test_refused_rows.py": 100,
    "tests/sinks/kafka/test_secured.py": 100,
    "tests/coordinator/service/state/test_conformance.py": 100,
    "tests/coordinator/service/test_service.py": 100,
    "tests/testing/test_reference.py": 100,
    "tests/testing/test_broken_markers.py": 100,
    "tests/testing/test_broken_commits.py": 95,
    "tests/testing/test_broken_deaths.py": 95,
    "tests/coordinator/spark/test_late_executors.py": 95,
    "tests/integration/test_cuts_of_merges.py": 90,
    "tests/coordinator/service/test_kept.py": 90,
    "tests/chaos/servers/test_server.py": 90,
    "tests/coordinator/operations/savepoints/test_fork.py": 90,
    "tests/coordinator/test_stops.py": 85,
    "tests/chaos/simulator/test_simulation.py": 85,
    "tests/coordinator/service/test_windows_and_cut.py": 85,
    "tests/integration/test_four_systems.py": 80,
    "tests/chaos/simulator/test_state_machine.py": 80,
    "tests/coordinator/operations/savepoints/test_move.py": 80,
    "tests/coordinator/operations/page/test_in_a_browser.py": 80,
    "tests/docs/test_pairing.py": 80,
    "tests/testing/test_broken_prepares.py": 80,
    "tests/coordinator/operations/savepoints/test_elsewhere.py": 80,
    "tests/integration/test_after_the_decision.py": 80,
    "tests/coordinator/service/test_dead_letters.py": 80,
    "tests/coordinator/kernel/log/test_conformance_sql.py": 75,
    "tests/chaos/explorer/test_explorer.py": 75,
    "tests/chaos/user/test_command.py": 75,
    "tests/clusters/test_records.py": 75,
    "tests/chaos/programs/test_service_programs.py": 70,
    "tests/chaos/matrix/test_special_cases.py": 70,
    "tests/coordinator/spark/test_query.py": 70,
    "tests/coordinator/spark/passes/test_one_evaluation.py": 70,
    "tests/sinks/kafka/test_source_kit.py": 70,
    "tests/coordinator/kernel/log/test_conformance_object.py": 65,
    "tests/coordinator/service/changelog/test_epochs.py": 65,
    "tests/coordinator/service/test_shards.py": 65,
    "tests/coordinator/spark/passes/test_dead_letters.py": 65,
    "tests/coordinator/operations/commands/test_no_tracebacks.py": 65,
    "tests/testing/test_broken_handles.py": 60,
    "tests/integration/test_nulls_in_merges.py": 60,
    "tests/integration/test_merges_in_runtimes.py": 60,
    "tests/chaos/programs/test_command.py": 60,
    "tests/coordinator/service/test_refused_and_time.py": 60,
    "tests/testing/test_sources.py": 60,
    "tests/test_packaging.py": 55,
    "tests/chaos/explorer/test_service.py": 55,
    "tests/testing/test_broken_sinks.py": 55,
    "tests/chaos/servers/test_kafka.py": 55,
    "tests/coordinator/test_sources_on_record.py": 55,
    "tests/coordinator/service/test_times_of_a_service.py": 55,
    "tests/coordinator/service/test_timers.py": 55,
    "tests/sinks/kafka/test_check.py": 50,
    "tests/chaos/matrix/test_power.py": 50,
    "tests/coordinator/test_spark_submit.py": 50,
    "tests/integration/test_session_zones.py": 50,
    "tests/sinks/values/test_postgres.py": 50,
    "tests/docs/test_payments.py": 50,
    "tests/coordinator/test_check.py": 50,
    "tests/coordinator/spark/test_dead_letters_of_servers.py": 50,
    "tests/sinks/effects/test_conformance.py": 50,
    "tests/coordinator/test_lengths_of_time.py": 50,
    "tests/chaos/authoring/test_authoring.py": 45,
    "tests/chaos/proxy/test_rules_on_kafka.py": 45,
    "tests/testing/test_broken_data.py": 45,
    "tests/sinks/kafka/test_owner.py": 45,
    "tests/chaos/prove/test_mutants.py": 45,
    "tests/coordinator/service/test_refused_rows.py": 45,
    "tests/coordinator/spark/passes/test_plan.py": 45,
    "tests/coordinator/service/changelog/test_lost_timers.py": 45,
    "tests/chaos/checkers/test_watch_kafka.py": 40,
    "tests/coordinator/test_checkpoint_elsewhere.py": 40,
    "tests/chaos/servers/test_stack.py": 40,
    "tests/coordinator/spark/test_executors.py": 40,
    "tests/coordinator/service/test_user_code.py": 40,
    "tests/coordinator/service/changelog/test_lost_stores.py": 40,
    "tests/coordinator/operations/test_adoption.py": 40,
    "tests/coordinator/test_log_elsewhere.py": 40,
    "tests/coordinator/spark/test_secrets.py": 40,
    "tests/coordinator/service/test_windows.py": 40,
    "tests/docs/test_classified_tickets.py": 35,
    "tests/chaos/user/test_run.py": 35,
    "tests/coordinator/spark/test_source_folders.py": 35,
    "tests/sinks/kafka/test_source.py": 35,
    "tests/sinks/postgres/source/test_stream.py": 35,
    "tests/coordinator/service/changelog/test_refused.py": 35,
    "tests/coordinator/service/test_broken_sources.py": 35,
    "tests/coordinator/service/test_timers_and_cut.py": 35,
    "tests/coordinator/service/test_standby.py": 30,
    "tests/sinks/mongo/test_secured.py": 30,
    "tests/chaos/servers/test_jars.py": 30,
    "tests/clusters/test_postgres_versions.py": 30,
    "tests/sinks/kafka/test_capacity.py": 30,
    "tests/sinks/kafka/test_idle_polling.py": 30,
    "tests/coordinator/service/test_epoch_bounds.py": 30,
    "tests/sinks/values/test_files_and_messages.py": 30,
    "tests/coordinator/service/test_refused_timers.py": 30,
    "tests/coordinator/service/test_positions.py": 30,
    "tests/clusters/test_postgres_failover.py": 25,
    "tests/coordinator/test_run.py": 25,
    "tests/coordinator/service/test_lost_offsets.py": 25,
    "tests/coordinator/operations/page/test_pages.py": 25,
    "tests/sinks/kafka/test_pending_markers.py": 25,
    "tests/coordinator/service/test_retired_sources.py": 25,
    "tests/coordinator/service/test_firing_epochs.py": 25,
    "tests/sinks/postgres/test_failures.py": 20,
    "tests/chaos/servers/test_spark_session.py": 20,
    "tests/chaos/servers/test_postgres.py": 20,
    "tests/testing/test_transactional.py": 20,
    "tests/coordinator/service/changelog/test_commands.py": 20,
    "tests/coordinator/kernel/log/test_conformance_local.py": 20,
    "tests/chaos/user/test_sink_rows.py": 20,
    "tests/chaos/prove/test_worker.py": 20,
    "tests/coordinator/operations/commands/test_cli.py": 20,
    "tests/coordinator/kernel/log/test_sql.py": 20,
    "tests/sinks/postgres/test_check.py": 20,
    "tests/coordinator/service/test_states.py": 20,
    "tests/clusters/test_certificates.py": 20,
    "tests/sinks/effects/test_promises.py": 20,
    "tests/sinks/kafka/test_commit.py": 20,
    "tests/coordinator/service/changelog/test_claims.py": 20,
    "tests/coordinator/service/test_commands.py": 20,
    "tests/docs/test_pairing_loop.py": 20,
    "tests/chaos/prove/test_command.py": 20,
    "tests/chaos/prove/test_controls.py": 20,
    "tests/coordinator/kernel/log/test_tail.py": 20,
    "tests/coordinator/operations/test_operations.py": 20,
    "tests/coordinator/service/test_waking_up.py": 20,
    "tests/integration/test_before_the_decision.py": 20,
    "tests/coordinator/spark/test_source_lag.py": 20,
}
"""File -> seconds, roughly: measured in a run of two processes on two processors; what only `make clusters` runs
whole, in one of those."""

NOTED_FROM_S = 20
"""A file that takes as long as this is in the table."""
GROWN = 2.0
"""A file that takes so many times what is noted has grown; less may be the load of the machine."""
TOLD_FROM_S = 120
"""A run whose tests take less in all says nothing: somebody tries some files."""
TOLD = 60


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def seconds_by_file(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """What each file has taken, with the fixtures that it was first to ask for."""
    taken: dict[str, float] = {}
    for report in reports:
        file = file_of(report.nodeid)
        taken[file] = taken.get(file, 0.0) + report.duration
    return taken


def summary(taken: Mapping[str, float], noted: Mapping[str, int] = LONGEST_S) -> Iterator[str]:
    """The longest files, longest first, and which of them are new to the table or have grown."""
    longest = sorted(taken.items(), key=lambda one: -one[1])[:TOLD]
    for file, seconds in longest:
        if file in noted:
            remark = f"  (noted: {noted[file]} s)" if seconds >= GROWN * noted[file] else ""
        else:
            remark = "  (not noted)" if seconds >= NOTED_FROM_S else ""
        yield f"{seconds:7.1f} s  {file}{remark}"
    yield f"{sum(taken.values()):7.1f} s  all {len(taken)} files, each in one process"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker, order the files: the longest first, then the others as they were."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -LONGEST_S.get(file_of(item.nodeid), 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the longest files of a long run."""
    reports = [one for every in terminalreporter.stats.values() for one in every if isinstance(one, pytest.TestReport)]
    taken = seconds_by_file(reports)
    if sum(taken.values()) >= TOLD_FROM_S:
        terminalreporter.section("longest files")
        for line in summary(taken):
            terminalreporter.line(line)
