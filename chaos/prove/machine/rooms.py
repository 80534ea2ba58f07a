"""The rooms that carry the protocol: where the machine makes its mutants."""

from __future__ import annotations

from collections.abc import Iterable

ROOMS: dict[str, tuple[str, ...]] = {
    "core": (
        "tpc/machine.py",
        "tpc/fold.py",
        "tpc/history.py",
        "tpc/belonging.py",
        "tpc/shown_epochs.py",
        "tpc/lost_commits.py",
        "tpc/damaged_end.py",
        "tpc/ancestors.py",
        "tpc/manifest.py",
        "tpc/handles.py",
        "tpc/merge.py",
        "tpc/source_changes.py",
    ),
    "log": ("coordinator/log/", "tpc/records.py"),
    "engine": ("coordinator/engine/", "coordinator/epochs.py", "coordinator/transition.py"),
    "feeding": ("coordinator/feeding/", "coordinator/passes/reports.py", "coordinator/passes/order.py"),
    "commits": (
        "sinks/files/committer.py",
        "sinks/files/publish.py",
        "sinks/postgres/commit_prepared.py",
        "sinks/postgres/committer.py",
        "sinks/mongo/commit_epoch.py",
        "sinks/mongo/committer.py",
    ),
    "owners": (
        "sinks/shared/owner_entry.py",
        "sinks/postgres/owners.py",
        "sinks/mongo/owners.py",
        "tpc/missing_targets.py",
        "coordinator/shown_at_claim.py",
        "coordinator/checkpoint_lock.py",
        "tpc/support/deposed.py",
    ),
    "sweeps": (
        "tpc/sweeping.py",
        "coordinator/participants.py",
        "coordinator/fates.py",
        "coordinator/given_up.py",
        "sinks/files/in_doubt.py",
    ),
    "reconcile": (
        "coordinator/spark/reconcile.py",
        "coordinator/spark/late_plans.py",
        "coordinator/spark/usable_commit.py",
        "coordinator/orderly_stop.py",
    ),
    "state store": ("coordinator/loop/state/", "tpc/changelog.py"),
    "cutting": (
        "coordinator/loop/cutting.py",
        "coordinator/loop/cut_events.py",
        "coordinator/loop/computing.py",
        "coordinator/loop/barriers.py",
        "coordinator/loop/event_clocks.py",
        "coordinator/loop/repairing.py",
        "coordinator/loop/running.py",
        "tpc/event_time.py",
        "tpc/watermark.py",
    ),
}
"""Room -> modules, or folders, which end with a slash."""


def files_of(room: str, files: Iterable[str]) -> list[str]:
    """Those of the checkout's modules that belong to a room."""
    modules = ROOMS[room]
    folders = tuple(each for each in modules if each.endswith("/"))
    return [file for file in files if file in modules or file.startswith(folders)]
