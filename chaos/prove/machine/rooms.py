"""The rooms that carry the protocol: where the machine makes its mutants."""

from __future__ import annotations

from collections.abc import Iterable

ROOMS: dict[str, tuple[str, ...]] = {
    "core": (
        "tpc/machine.py",
        "tpc/fold.py",
        "tpc/history.py",
        "tpc/consistency.py",
        "tpc/damaged_log_end.py",
        "tpc/ancestors.py",
        "tpc/manifest.py",
        "tpc/handles.py",
        "tpc/merge.py",
        "tpc/source_changes.py",
    ),
    "log": ("coordinator/kernel/log/", "tpc/records.py"),
    "engine": ("coordinator/kernel/engine/", "coordinator/kernel/epochs.py", "coordinator/kernel/transition.py"),
    "feeding": (
        "coordinator/kernel/feeding/",
        "coordinator/spark/passes/reports.py",
        "coordinator/spark/passes/plan.py",
    ),
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
        "coordinator/kernel/preflight.py",
        "coordinator/kernel/checkpoint_lock.py",
        "tpc/support/stopped_lock_holder.py",
    ),
    "sweeps": (
        "tpc/abort_rules.py",
        "coordinator/kernel/participants.py",
        "coordinator/kernel/planned_actions.py",
        "coordinator/kernel/given_up.py",
        "sinks/files/committer.py",
    ),
    "reconcile": (
        "coordinator/spark/reconcile.py",
        "coordinator/spark/overwritten_offsets.py",
        "coordinator/spark/usable_commit.py",
        "coordinator/spark/orderly_stop.py",
    ),
    "state store": ("coordinator/service/state/", "tpc/changelog.py"),
    "cutting": (
        "coordinator/service/cutting.py",
        "coordinator/service/cut_events.py",
        "coordinator/service/computing.py",
        "coordinator/service/epoch_input.py",
        "coordinator/service/source_watermarks.py",
        "coordinator/service/running.py",
        "tpc/watermark.py",
        "tpc/time_to_live.py",
    ),
}
"""Room -> modules, or folders, which end with a slash."""


def files_of(room: str, files: Iterable[str]) -> list[str]:
    """Those of the checkout's modules that belong to a room."""
    modules = ROOMS[room]
    folders = tuple(each for each in modules if each.endswith("/"))
    return [file for file in files if file in modules or file.startswith(folders)]
