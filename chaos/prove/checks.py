"""The checks that a mutant must not survive. Which of them say something about it is measured, not written here.

A check is the explorer, the simulator, or a kit: a file of tests, or a folder of them. What it does is in
`worker.py`, which runs in a copy. A check has a deadline, since a mutant may hang.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpc.chaos.explorer.protocol.model import Scope
from tpc.chaos.explorer.whole import CHANGELOG, GIVE_UPS, LOG_LOSSES, MOVING, SERVICE, SERVICE_WITH_TIMERS, STATES

SMALL = (
    STATES,
    CHANGELOG,
    MOVING,
    replace(SERVICE, service_faults=1),
    replace(SERVICE_WITH_TIMERS, timed_events=1),
    Scope(faults=1, rivals=0, renewals=1),
    Scope(faults=2, rivals=0),
    GIVE_UPS,
    replace(LOG_LOSSES, faults=1),
    Scope(faults=1, rivals=1),
)
"""What is explored of a mutant: seconds instead of the minutes of the whole search."""
SEEDS = 3_000
"""How many simulations a mutant must survive: always those of the seeds from 0 on."""
SIMULATOR = "simulator"
"""The check that can leave out seeds."""


@dataclass(frozen=True)
class Check:
    """One way to notice a mutant."""

    name: str
    deadline_s: float
    tests: str | tuple[str, ...] = ""
    """The file or the folder of a kit's tests, below the checkout; or several of them."""
    waits: bool = False
    """Whether it mostly waits, for servers that start and processes that are killed."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What `tests` names; empty for the explorer and the simulator."""
        named = (self.tests,) if isinstance(self.tests, str) else self.tests
        return tuple(filter(None, named))


CHECKS = (
    Check("explorer", 240.0),
    Check(SIMULATOR, 300.0),
    Check("files kit", 420.0, "tests/sinks/files/test_conformance.py"),
    Check("postgres kit", 600.0, "tests/sinks/postgres/test_conformance.py", waits=True),
    Check("mongo kit", 600.0, "tests/sinks/mongo/test_conformance.py", waits=True),
    Check("kafka kit", 600.0, "tests/sinks/kafka/test_conformance.py", waits=True),
    Check("kafka offsets kit", 600.0, "tests/sinks/kafka/test_offsets_conformance.py", waits=True),
    Check("effects kit", 240.0, "tests/sinks/effects/test_conformance.py"),
    Check("staging kit", 120.0, "tests/sinks/authoring/test_staging_directory.py"),
    Check("state kit", 420.0, "tests/coordinator/service/state/test_conformance.py"),
    Check("log kit", 120.0, "tests/coordinator/kernel/log/test_conformance_local.py"),
    Check("sql log kit", 420.0, "tests/coordinator/kernel/log/test_conformance_sql.py", waits=True),
    Check("object log kit", 240.0, "tests/coordinator/kernel/log/test_conformance_object.py"),
    # A simulated log seldom comes to all that a forgotten process may find in its own.
    Check(
        "journal kit",
        120.0,
        ("tests/coordinator/kernel/log/test_journal.py", "tests/coordinator/kernel/log/test_journal_elsewhere.py"),
    ),
    # The simulator moves a pipeline in one act.
    Check("log moving kit", 120.0, "tests/coordinator/kernel/log/test_moving.py"),
    Check("log tail kit", 240.0, "tests/coordinator/kernel/log/test_tail.py"),
    # The simulator's disk is one of its own, and whoever kills processes loses no pages: these cut the power.
    Check("power kit", 120.0, "tests/tpc_support/test_power_cuts.py"),
    Check("files power kit", 120.0, "tests/sinks/files/test_power_cuts.py"),
    Check("log disk kit", 120.0, "tests/coordinator/kernel/log/test_local_faults.py"),
    Check("durable files kit", 120.0, "tests/tpc_support/test_durable_files.py"),
    # The simulated Spark keeps no files of state: what is fsynced of them is seen by these tests alone.
    Check("durability kit", 120.0, "tests/coordinator/spark/test_checkpoint_fsync.py"),
    Check("savepoint kit", 240.0, "tests/coordinator/operations/savepoints/test_folder.py"),
    # Names in records and savepoints are the judges' own: none leads anywhere else.
    Check("names kit", 120.0, "tests/tpc_support/test_names_below.py"),
    Check("foreign files kit", 120.0, "tests/sinks/files/test_foreign_names.py"),
    # Damage, a commit and markers that expire seldom meet in a simulation by chance: these are runs in which they do.
    Check("damaged end kit", 120.0, "tests/chaos/simulator/test_forgotten_markers.py"),
    # Each rule of the core by itself, with cases that the searches come to only by more faults than they have.
    Check("core rules kit", 240.0, "tests/core"),
    # Who gives up an epoch of the simulator brings no backup back afterwards.
    Check("lost commits kit", 120.0, "tests/core/test_lost_commits.py"),
    # Programs of the simulator and of the explorer read what they have read before.
    Check("sources on record kit", 120.0, "tests/core/test_source_changes.py"),
    # Spark of the simulator dies, and is never stopped in order.
    Check("stops kit", 120.0, "tests/coordinator/spark/test_orderly_stop.py"),
    # Forgotten processes of the simulator have no states that others go on with.
    Check("waking kit", 120.0, "tests/coordinator/service/test_waking_up.py"),
    # Sinks of the simulator raise one class of error, and a forgotten process ends at its next put whatever it is told.
    Check("leadership kit", 120.0, "tests/coordinator/kernel/engine/test_leadership.py"),
    # Processes of the simulator hold no files, and are supervised by itself.
    Check("takeover kit", 120.0, "tests/tpc_support/test_stopped_lock_holder.py"),
    Check("checkpoint lock kit", 120.0, "tests/coordinator/kernel/test_checkpoint_lock.py"),
    Check("supervisor kit", 240.0, "tests/coordinator/operations/supervision/test_supervisor.py"),
    # Sinks of the explorer and of the simulator are always there.
    Check("missing target kit", 120.0, "tests/coordinator/service/test_missing_targets.py"),
    # The simulator has a pass of its own: its branches are one batch each, its tasks report once, it merges nothing.
    Check("feeding kit", 240.0, "tests/coordinator/kernel/feeding"),
    Check("reduction kit", 120.0, "tests/coordinator/kernel/feeding/test_gather.py"),
    Check("passes kit", 420.0, "tests/coordinator/spark/passes"),
    # The sources of the explorer's service stay, stay what they are, and are not read ahead.
    Check("sources kit", 120.0, "tests/coordinator/service/test_retired_sources.py"),
    Check("recreated kit", 120.0, "tests/coordinator/service/test_recreated.py"),
    Check("reading ahead kit", 120.0, "tests/coordinator/service/test_reading_ahead.py"),
    # In the explorer's service events come in the order of their times, no clock goes on, no event is refused, values
    # are small whole numbers, and functions plain ones.
    Check("time rules kit", 120.0, "tests/core/test_watermark.py"),
    Check("refused events kit", 420.0, "tests/coordinator/service/test_refused_and_time.py"),
    # The explorer's service has one timer, by the clock, few keys, and no event that is refused.
    Check("timers kit", 420.0, "tests/coordinator/service/test_timers_and_cut.py"),
    Check("exact values kit", 240.0, "tests/coordinator/service/test_exact_values.py"),
    # A sink's kit has one odd row, and asks its validator for that one alone.
    Check("validators kit", 120.0, "tests/sinks/test_validators.py"),
    Check("postgres validator kit", 240.0, "tests/sinks/postgres/test_validator.py", waits=True),
    Check("user code kit", 240.0, "tests/coordinator/service/test_user_code.py"),
    Check("event time kit", 240.0, "tests/coordinator/service/test_cut_and_time.py"),
    Check("compaction kit", 240.0, "tests/coordinator/service/state/test_compaction.py"),
    # What a start does before it asks anything else: the explorer begins with a store as it is.
    Check("lost state kit", 240.0, "tests/coordinator/service/changelog/test_lost_stores.py", waits=True),
    Check(
        "changelog kit",
        420.0,
        tuple(f"tests/coordinator/service/changelog/test_{name}.py" for name in ("lost_disk", "refused", "epochs")),
        waits=True,
    ),
    Check("lost offsets kit", 420.0, "tests/coordinator/service/test_lost_offsets.py", waits=True),
    Check("table source kit", 240.0, "tests/sinks/postgres/source/test_table.py", waits=True),
    # Neither the explorer nor the simulator has several processes of one service.
    Check("shards kit", 420.0, "tests/coordinator/service/test_shards.py", waits=True),
    Check("standby kit", 240.0, "tests/coordinator/service/test_standby.py"),
    Check("service kit", 420.0, "tests/coordinator/service/test_service.py"),
    # The server of the sink's kit may have no transactions; whether their steps meet needs none.
    Check("mongo transaction kit", 240.0, "tests/sinks/mongo/test_transaction.py", waits=True),
    # The kit's commits are killed, and do not stand still; its readers remove no documents.
    Check("mongo looks kit", 420.0, "tests/sinks/mongo/test_between_looks.py", waits=True),
    Check("mongo progress kit", 240.0, "tests/sinks/mongo/test_consumed.py", waits=True),
    # No sink's kit reads with it.
    Check("kafka source kit", 240.0, "tests/sinks/kafka/test_source.py", waits=True),
    # The brokers of the sink's kit stay, lose no marker and leave none pending; its transactions are open for a moment,
    # its branches small, and its epochs have fewer of them than a hint has ids.
    Check("kafka evidence kit", 240.0, "tests/sinks/kafka/test_completeness.py", waits=True),
    Check("kafka pruning kit", 120.0, "tests/sinks/kafka/test_pruning.py"),
    Check("kafka markers kit", 240.0, "tests/sinks/kafka/test_shown_markers.py", waits=True),
    Check("kafka pending kit", 240.0, "tests/sinks/kafka/test_pending_markers.py", waits=True),
    Check("kafka handover kit", 240.0, "tests/sinks/kafka/test_handover.py", waits=True),
    Check("kafka polling kit", 240.0, "tests/sinks/kafka/test_idle_polling.py", waits=True),
    # The machine makes its mutants in whole rooms: the tests of each room say most about them, and are soon done.
    Check("engine kit", 120.0, ("tests/coordinator/kernel/engine", "tests/coordinator/kernel/test_epochs.py")),
    Check(
        "claims kit",
        120.0,
        tuple(
            f"tests/coordinator/kernel/test_{name}.py" for name in ("coordinator", "participants", "planned_actions")
        ),
    ),
    Check(
        "reconciling kit",
        120.0,
        (
            "tests/coordinator/spark/test_reconcile.py",
            "tests/coordinator/spark/test_lost_state.py",
            "tests/coordinator/spark/test_query_log.py",
            "tests/coordinator/spark/test_batch_plans.py",
        ),
    ),
    Check(
        "sqlite log kit",
        120.0,
        ("tests/coordinator/kernel/log/test_sqlite.py", "tests/coordinator/kernel/log/test_places.py"),
    ),
    Check("local log kit", 120.0, "tests/coordinator/kernel/log/test_local.py"),
    Check("object store kit", 240.0, "tests/coordinator/kernel/log/test_objects.py"),
    Check(
        "reports kit",
        120.0,
        (
            "tests/coordinator/spark/passes/test_complete_reports.py",
            "tests/coordinator/spark/passes/test_reports.py",
            "tests/coordinator/spark/passes/test_order.py",
        ),
    ),
    Check(
        "state rules kit",
        240.0,
        tuple(
            f"tests/coordinator/service/state/test_{name}.py"
            for name in (
                *("state", "contents", "keys", "parts", "codec", "checkpoints", "rebuilding"),
                *("one_event", "stores", "upkeep"),
            )
        ),
    ),
    Check(
        "cutting kit",
        240.0,
        tuple(
            f"tests/coordinator/service/test_{name}.py"
            for name in (
                *("cutting", "cutting_turns", "broken_sources", "positions", "clocks", "row_batches"),
                *("output", "states", "epoch_input", "garbage"),
            )
        ),
    ),
    Check(
        "dead letters kit",
        420.0,
        ("tests/coordinator/service/test_dead_letters.py", "tests/coordinator/service/test_refused_rows.py"),
    ),
    Check(
        "operators kit",
        240.0,
        ("tests/coordinator/operations/test_operations.py", "tests/coordinator/test_log_check.py"),
    ),
    Check(
        "files commits kit",
        240.0,
        tuple(
            f"tests/sinks/files/test_{name}.py"
            for name in ("commit", "in_doubt", "manifests_removed", "used_again", "owner")
        ),
    ),
    Check(
        "files places kit",
        240.0,
        tuple(f"tests/sinks/files/test_{name}.py" for name in ("formats", "rights", "silence")),
    ),
    Check(
        "state access kit",
        240.0,
        ("tests/coordinator/service/test_state_access.py", "tests/coordinator/service/test_kept.py"),
    ),
    Check("times of a service kit", 120.0, "tests/coordinator/service/test_times_of_a_service.py"),
    Check(
        "postgres commits kit",
        420.0,
        tuple(f"tests/sinks/postgres/test_{name}.py" for name in ("branches", "owner", "check")),
        waits=True,
    ),
    Check(
        "mongo commits kit",
        420.0,
        ("tests/sinks/mongo/test_commit.py", "tests/sinks/mongo/test_give_up.py", "tests/sinks/mongo/test_owner.py"),
        waits=True,
    ),
)
"""Adding one is an entry here, and a mutant that it notices."""


def check_named(name: str) -> Check:
    """The check of that name."""
    return next(check for check in CHECKS if check.name == name)
