"""The checks that a mutant must not survive, the cheap ones first, and which of them look at which files.

What a check does stands in `worker.py`, which runs in the copy. A check has a deadline, since a mutant may hang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tpc.chaos.explorer.whole import CHANGELOG, GIVE_UPS, LOG_LOSSES, LOOP, MOVING, STATES, Scope

SMALL = (
    STATES,
    CHANGELOG,
    MOVING,
    replace(LOOP, loop_faults=1),
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

_SINKS = "tests/sinks/{}/test_{}.py"
_LOGS = "tests/coordinator/log/test_conformance_{}.py"


@dataclass(frozen=True)
class Check:
    """One way to notice a mutant. `tests` is the file of a conformance kit's test classes."""

    name: str
    deadline_s: float
    looks_at: tuple[str, ...]
    """Beginnings of the paths whose code it runs."""
    not_at: tuple[str, ...] = ()
    tests: str = ""


_SQL_LOG = ("coordinator/log/sql",)
_OBJECT_LOG = ("coordinator/log/object",)
_LOG_BACKENDS = ("coordinator/log/local.py", *_SQL_LOG, *_OBJECT_LOG)
_LINEAGE = ("coordinator/spark/lineage.py",)
"""The simulated Spark keeps no files of state: what is fsynced of them is seen by these tests alone."""
_SAVEPOINTS = ("coordinator/savepoints/", "coordinator/forks.py", "tpc/ancestors.py")
"""The simulator moves a pipeline in one act: it reads and writes no files of a savepoint."""
_LOOP = ("coordinator/loop/",)
"""The simulator runs Spark's passes."""
_LOST_STATES = ("coordinator/loop/state/lost_stores.py", "coordinator/loop/leading.py")
"""What a start does before it asks anything else: the explorer's begin with a store as it is."""
_EXPLORED_STATE = (
    *("changelog_rows", "changes", "codec", "contents", "ends", "epoch_state"),
    *("kept", "one_event", "rebuilding", "rules", "state", "touched"),
)
_EXPLORED_LOOP = (
    *(
        f"coordinator/loop/{name}.py"
        for name in (
            *("barriers", "computing", "cut_events", "cutting", "emitted", "event_clocks"),
            *("function_runs", "functions", "row_batches", "row_buffer", "running"),
        )
    ),
    *(f"coordinator/loop/state/{name}.py" for name in _EXPLORED_STATE),
)
"""What runs in the explorer of a loop's process; its store is modelled over the rules."""
_EXPLORED_PLANS = tuple(f"coordinator/spark/{name}.py" for name in ("late_plans", "reconcile"))
"""What runs in the explorer of a driver that moves."""
_SHARED = tuple(f"tpc/{name}.py" for name in ("errors", "handles", "json", "merge", "settings", "sink"))
"""What the core gives to sinks; the files kit, which needs no server, runs it."""
_JOURNAL = ("coordinator/log/journal.py",)
"""Seldom does a simulated log come to all that a forgotten process may find in its own."""
_DAMAGED_END = ("coordinator/shown_at_claim.py", "tpc/damaged_end.py")
"""Damage, a commit and markers that expire seldom meet in a simulation by chance: these are runs in which they do."""
_DEPOSED = ("tpc/support/deposed.py",)
_CHECKPOINT_LOCK = ("coordinator/checkpoint_lock.py",)
_TAKEOVER = (*_DEPOSED, *_CHECKPOINT_LOCK)
"""Processes of the simulator hold no files."""
_KAFKA_EVIDENCE = ("sinks/kafka/driver/commit_evidence.py",)
"""It takes a cluster whose brokers go to need it: the kit's has one, which stays."""
_TARGETS = ("coordinator/coordinator.py", "coordinator/participants.py")
"""Sinks of the explorer and of the simulator are always there."""
_MONGO_COMMIT = ("sinks/mongo/commit_epoch.py",)
"""The kit's server may have no transactions; whether their steps meet those of a guarded commit needs none."""
_MONGO_PROGRESS = ("sinks/mongo/commit_epoch.py", "sinks/mongo/apply.py", "sinks/mongo/progress.py")
"""The kit's readers remove no documents."""
_KAFKA_PRUNING = ("sinks/kafka/driver/pruning.py", "sinks/kafka/cluster/released_ids.py")
"""The kit's epochs have fewer branches than a hint has ids."""
_KAFKA_HANDOVER = ("sinks/kafka/worker/writer.py", "sinks/kafka/worker/handover.py")
"""The kit's branches are small: the client has room for them."""
_KAFKA_REPORTS = ("sinks/kafka/worker/producer.py", "sinks/kafka/worker/idle_polling.py")
"""The kit's transactions are open for a moment."""
_KAFKA_SHOWN = ("sinks/kafka/driver/shown_markers.py", "sinks/kafka/driver/committer.py")
_KAFKA_MARKERS = (*_KAFKA_SHOWN, "sinks/kafka/worker/transaction.py")
"""The kit's broker loses no marker, and of one that was wrong from the beginning a commit puts the right one."""
_KAFKA_PENDING = (*_KAFKA_SHOWN, "sinks/kafka/cluster/markers.py", "sinks/kafka/driver/completeness.py")
"""And it leaves none pending."""
_KAFKA_OFFSETS = ("sinks/kafka/offsets/",)
_CUTS = (
    *(f"coordinator/loop/{name}.py" for name in ("barriers", "cutting", "event_clocks", "layout")),
    "tpc/event_time.py",
)
"""The sources of the explorer's service stay."""
_READING_AHEAD = ("coordinator/loop/reading_ahead.py", "coordinator/feeding/beside.py")
"""Sources of the explorer's service are not read ahead."""
_MADE_ANEW = (
    *(f"coordinator/loop/{name}.py" for name in ("barriers", "cutting", "loop_pass")),
    *(f"coordinator/feeding/{name}.py" for name in ("beside", "confirming")),
    "tpc/identities.py",
)
"""They stay what they are while a process of it runs."""
_KAFKA_SOURCE = ("sinks/kafka/source/", "sinks/kafka/cluster/topic_ids.py")
"""No sink's kit reads with it."""
_STATES = ("coordinator/loop/state/",)
_EVENT_TIME = (
    *(f"tpc/{name}.py" for name in ("event_time", "watermark")),
    *(f"coordinator/loop/{name}.py" for name in ("cut_events", "event_clocks", "function_runs", "functions")),
    *(f"coordinator/loop/state/{name}.py" for name in ("ends", "epoch_state", "state", "touched")),
)
"""In the explorer's service events come in the order of their times, and no clock goes on."""
_FEEDING = ("coordinator/feeding/",)
"""The simulator has a pass of its own, whose branches are one batch each."""
_REPORTS = ("coordinator/passes/reports.py",)
"""And its tasks report once each."""
_LOST_COMMITS = ("tpc/lost_commits.py",)
"""Who gives up an epoch of the simulator brings no backup back afterwards."""
_DURABLE_FILES = ("tpc/support/durable_files.py",)
"""Whoever kills processes loses no pages: these tests cut the power before every act."""
_STOPS = ("coordinator/orderly_stop.py",)
"""Spark of the simulator dies, and is never stopped in order."""
_SOURCES_ON_RECORD = tuple(f"tpc/source_{name}.py" for name in ("changes", "records", "topics"))
"""Programs of the simulator and of the explorer read what they have read before."""
_TIME_RULES = ("tpc/event_time.py", "tpc/watermark.py")
"""In the explorer's service no clock goes on."""
_USER_CODE = (
    "tpc/user_code.py",
    *(f"coordinator/loop/{name}.py" for name in ("functions", "function_runs", "emitted")),
)
"""Its functions are plain ones."""
_EXACT_VALUES = tuple(
    f"coordinator/loop/{name}.py"
    for name in ("batch_columns", "exact_columns", "exact_values", "nested_values", "row_buffer", "value_rules")
)
"""Its values are small whole numbers."""
_REFUSED_EVENTS = (
    *(f"coordinator/loop/{name}.py" for name in ("cut_events", "dead_letters", "function_runs", "refusals")),
    *(f"coordinator/loop/state/{name}.py" for name in ("ends", "one_event")),
)
"""Its events are not refused."""
_WAKING = ("coordinator/engine/effects.py", "coordinator/engine/loop.py")
"""Forgotten processes of the simulator have no states that others go on with."""
_REDUCTION = tuple(f"coordinator/feeding/{name}.py" for name in ("arrow_order", "gather", "reduction"))
"""Sinks of the simulator merge nothing."""
_SYSTEMS = ("files", "postgres", "mongo", "kafka")


def _sink_kit(system: str, deadline_s: float, *also: str, not_at: tuple[str, ...] = ()) -> Check:
    """The kit of a sink looks at the sink's modules and at those that all sinks share."""
    others = tuple(f"sinks/{other}/" for other in _SYSTEMS if other != system)
    return Check(
        f"{system} kit", deadline_s, ("sinks/", *also), (*others, *not_at), _SINKS.format(system, "conformance")
    )


CHECKS = (
    Check("durability kit", 120.0, _LINEAGE, tests="tests/coordinator/spark/test_lineage.py"),
    Check("log kit", 120.0, ("coordinator/log/local.py", "coordinator/log/contract.py"), tests=_LOGS.format("local")),
    Check("power kit", 120.0, (*_DURABLE_FILES, _LOG_BACKENDS[0]), tests="tests/tpc_support/test_power_cuts.py"),
    Check("files power kit", 120.0, ("sinks/files/", *_DURABLE_FILES), tests=_SINKS.format("files", "power_cuts")),
    Check("takeover kit", 120.0, _DEPOSED, tests="tests/tpc_support/test_deposed.py"),
    Check("checkpoint lock kit", 120.0, _CHECKPOINT_LOCK, tests="tests/coordinator/test_checkpoint_lock.py"),
    Check("damaged end kit", 120.0, _DAMAGED_END, tests="tests/chaos/simulator/test_forgotten_markers.py"),
    Check("time rules kit", 120.0, _TIME_RULES, tests="tests/core/test_event_time.py"),
    Check("sources on record kit", 120.0, _SOURCES_ON_RECORD, tests="tests/core/test_source_changes.py"),
    Check("stops kit", 120.0, _STOPS, tests="tests/coordinator/test_orderly_stop.py"),
    Check("reduction kit", 120.0, _REDUCTION, tests="tests/coordinator/feeding/test_gather.py"),
    Check("exact values kit", 240.0, _EXACT_VALUES, tests="tests/coordinator/loop/test_exact_values.py"),
    Check("user code kit", 240.0, _USER_CODE, tests="tests/coordinator/loop/test_user_code.py"),
    Check("refused events kit", 420.0, _REFUSED_EVENTS, tests="tests/coordinator/loop/test_refused_and_time.py"),
    Check("lost commits kit", 120.0, _LOST_COMMITS, tests="tests/core/test_lost_commits.py"),
    Check("passes kit", 120.0, _REPORTS, tests="tests/coordinator/passes/test_complete_reports.py"),
    Check("feeding kit", 240.0, _FEEDING, tests="tests/coordinator/feeding/test_repaired_branches.py"),
    Check("journal kit", 120.0, _JOURNAL, tests="tests/coordinator/log/test_journal.py"),
    Check("kafka source kit", 240.0, _KAFKA_SOURCE, tests="tests/sinks/kafka/test_source.py"),
    Check("kafka evidence kit", 240.0, _KAFKA_EVIDENCE, tests="tests/sinks/kafka/test_completeness.py"),
    Check("kafka pruning kit", 120.0, _KAFKA_PRUNING, tests="tests/sinks/kafka/test_pruning.py"),
    Check("kafka markers kit", 120.0, _KAFKA_MARKERS, tests="tests/sinks/kafka/test_shown_markers.py"),
    Check("kafka pending kit", 120.0, _KAFKA_PENDING, tests="tests/sinks/kafka/test_pending_markers.py"),
    Check("kafka handover kit", 120.0, _KAFKA_HANDOVER, tests="tests/sinks/kafka/test_handover.py"),
    Check("kafka polling kit", 120.0, _KAFKA_REPORTS, tests="tests/sinks/kafka/test_idle_polling.py"),
    Check("missing target kit", 120.0, _TARGETS, tests="tests/coordinator/loop/test_missing_targets.py"),
    Check("reading ahead kit", 120.0, _READING_AHEAD, tests="tests/coordinator/loop/test_reading_ahead.py"),
    Check("made anew kit", 120.0, _MADE_ANEW, tests="tests/coordinator/loop/test_made_anew.py"),
    Check("mongo transaction kit", 240.0, _MONGO_COMMIT, tests="tests/sinks/mongo/test_transaction.py"),
    Check("mongo looks kit", 420.0, _MONGO_COMMIT, tests="tests/sinks/mongo/test_between_looks.py"),
    Check("mongo progress kit", 240.0, _MONGO_PROGRESS, tests="tests/sinks/mongo/test_consumed.py"),
    Check("waking kit", 120.0, _WAKING, tests="tests/coordinator/loop/test_waking_up.py"),
    Check("lost state kit", 240.0, _LOST_STATES, tests="tests/coordinator/loop/changelog/test_lost_stores.py"),
    Check("savepoint kit", 240.0, _SAVEPOINTS, tests="tests/coordinator/savepoints/test_folder.py"),
    Check("explorer", 240.0, ("tpc/", *_EXPLORED_LOOP, *_EXPLORED_PLANS), (*_SAVEPOINTS, *_TAKEOVER)),
    Check("state kit", 420.0, _STATES, tests="tests/coordinator/loop/state/test_conformance.py"),
    Check("sources kit", 120.0, _CUTS, tests="tests/coordinator/loop/test_retired_sources.py"),
    Check("event time kit", 240.0, _EVENT_TIME, tests="tests/coordinator/loop/test_cut_and_time.py"),
    Check("compaction kit", 240.0, _STATES, tests="tests/coordinator/loop/state/test_compaction.py"),
    _sink_kit("files", 240.0, *_SHARED),
    Check(SIMULATOR, 300.0, ("tpc/", "coordinator/"), (*_LOG_BACKENDS, *_LINEAGE, *_SAVEPOINTS, *_LOOP, *_TAKEOVER)),
    Check("sql log kit", 240.0, _SQL_LOG, tests=_LOGS.format("sql")),
    Check("object log kit", 240.0, _OBJECT_LOG, tests=_LOGS.format("object")),
    _sink_kit("postgres", 420.0),
    _sink_kit("mongo", 600.0),
    _sink_kit("kafka", 600.0, not_at=(*_KAFKA_OFFSETS, *_KAFKA_EVIDENCE, _KAFKA_MARKERS[0])),
    Check("kafka offsets kit", 600.0, _KAFKA_OFFSETS, tests=_SINKS.format("kafka", "offsets_conformance")),
)
"""In the order in which they are tried."""


def check_named(name: str) -> Check:
    """The check of that name."""
    return next(check for check in CHECKS if check.name == name)


def checks_of(files: Iterable[str]) -> list[Check]:
    """The checks that run any of these files, in their order."""
    changed = list(files)
    return [check for check in CHECKS if any(_looks_at(check, file) for file in changed)]


def _looks_at(check: Check, file: str) -> bool:
    return file.startswith(check.looks_at) and not file.startswith(check.not_at)
