"""The commands `tpc savepoint`, `tpc restore`, `tpc savepoints list` and its like: a pipeline as one folder.

Here are arguments and words; what is done is in `savepoints` and `savepoint_targets`.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, CheckpointOrJob, LogPlace
from tpc.coordinator.operations.commands.listing import print_listing
from tpc.support.terminal import print_json, print_line
from tpc.urls import without_user

if TYPE_CHECKING:
    from tpc.coordinator.operations.savepoints.restoring import Restored
    from tpc.coordinator.operations.savepoints.retention import StoredSavepoint

Savepoint = Annotated[str, typer.Argument(help="the savepoint's folder, or its URL in an object store")]
Savepoints = Annotated[str, typer.Argument(help="where savepoints are kept, a folder or a URL")]


def mount(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(savepoint)
    app.command()(restore)
    group = typer.Typer(help="Savepoints at one place: list, check, drop, prune.", no_args_is_help=True)
    group.command("list")(list_savepoints)
    group.command("check")(check)
    group.command("drop")(drop)
    group.command("prune")(prune)
    app.add_typer(group, name="savepoints")


def savepoint(
    target: CheckpointOrJob,
    *,
    to: Annotated[str, typer.Option(help="where all savepoints are, a folder or a URL; this one gets its own there")],
    copy: Annotated[bool, typer.Option("--copy", help="only a copy, for a fork: the pipeline goes on")] = False,
    log: LogPlace = None,
    timeout_s: Annotated[float, typer.Option(min=0.0, help="how long a running pipeline has to stop")] = 600.0,
    again: Annotated[
        bool, typer.Option("--again", help="the savepoint with which the log has ended is lost: make it once more")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a pipeline into one folder, and end it there: it goes on where `tpc restore` puts it.

    A pipeline that runs stops after its current epoch. Changes: the folder is made, and the log gets a last record, so
    that nobody starts on the old checkpoint again. With --copy nothing but the folder is made. With a JOB the sinks are
    asked what they show. No row is written.
    """
    from tpc.coordinator.operations.commands.savepoint_targets import make

    kept = make(target, to, log, copy=copy, timeout_s=timeout_s, again=again)
    if as_json:
        print_json(kept.to_json(time.time()))
        return
    found, place = kept.manifest, shlex.quote(kept.place)
    print_line(f"savepoint {kept.place}")
    print_line(f"of {found.pipeline} after epoch {found.epoch}: {len(found.files)} files, {found.size_bytes} bytes")
    if copy:
        print_line(f"A copy: the pipeline goes on. To do: `tpc restore {place} --checkpoint NEW --fork`.")
    else:
        print_line(
            f"The pipeline has ended with it, and its old checkpoint opens no more. To do: `tpc restore {place} "
            "--checkpoint NEW --move`."
        )


def restore(
    savepoint: Savepoint,
    *,
    checkpoint: Annotated[Path, typer.Option(help="where the checkpoint is to be: an empty place")],
    move: Annotated[bool, typer.Option("--move", help="the same pipeline goes on here")] = False,
    fork: Annotated[bool, typer.Option("--fork", help="another incarnation begins here, into other targets")] = False,
    log: Annotated[str | None, typer.Option(help="the new log, if not in the checkpoint: a directory or a URL")] = None,
    incarnation: Annotated[int | None, typer.Option(help="of a fork; else the next one")] = None,
    job: Annotated[
        str | None, typer.Option(help="module:function as it will be started there: its sinks are asked before a move")
    ] = None,
    state_partitions: Annotated[int | None, typer.Option(help="refused if the state has another number")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a savepoint on a new checkpoint, as the same pipeline (--move) or as a fork of it (--fork).

    Changes: the new checkpoint and its log are made, and a savepoint that moves notes where it went. No sink is
    changed; what the sinks show is compared at the start, and with --job before anything is made.
    """
    from tpc.coordinator.operations.commands.savepoint_targets import restore as restored

    if move == fork:
        raise typer.BadParameter("give one of --move, --fork")
    if move and incarnation is not None:
        raise typer.BadParameter("--incarnation is a fork's: a move keeps the pipeline's own")
    if fork and job is not None:
        raise typer.BadParameter("--job asks before a move; the sinks of a fork are asked by its start")
    checkpoint = checkpoint if ":/" in str(checkpoint) else checkpoint.absolute()  # Path writes "s3a://" as "s3a:/"
    done = restored(
        savepoint, checkpoint, log, moves=move, incarnation=incarnation, job=job, partitions=state_partitions
    )
    if as_json:
        print_json(_restored_json(done, checkpoint))
        return
    pipeline = done.history.pipeline
    assert pipeline is not None
    settings = f"checkpoint={str(checkpoint)!r}" + ("" if log is None else ", log=...")
    if done.moves:
        print_line(f"{pipeline} goes on after epoch {done.manifest.epoch} at {checkpoint}")
        print_line(f"To do: start it with {settings}, in the same targets.")
    else:
        came_from = f"{done.manifest.pipeline} after epoch {done.manifest.epoch}"
        print_line(f"{pipeline}, a fork of {came_from}, is at {checkpoint}")
        print_line(f"To do: start it with {settings}, as incarnation {pipeline.incarnation}, and with other targets.")


def _restored_json(done: Restored, checkpoint: Path) -> dict[str, Any]:
    return {
        "pipeline": str(done.history.pipeline),
        "from": str(done.manifest.pipeline),
        "how": "move" if done.moves else "fork",
        "epoch": done.manifest.epoch,
        "checkpoint": str(checkpoint),
        "log": done.log.describe(),
    }


def list_savepoints(place: Savepoints, *, as_json: AsJson = False) -> None:
    """The savepoints at a place, the newest first, with their age. Changes nothing; their files are not read."""
    from tpc.coordinator.operations.savepoints.locations import home_of
    from tpc.coordinator.operations.savepoints.retention import savepoints_in

    home = home_of(place)
    kept, others = savepoints_in(home)
    now_s = time.time()
    if as_json:
        unknown = [{"savepoint": home.place(name), "what": what} for name, what in others.items()]
        print_json({"savepoints": [one.to_json(now_s) for one in kept], "others": unknown})
        return
    if kept:
        print_listing(("savepoint", "pipeline", "epoch", "age", "bytes", "state"), [_row(one, now_s) for one in kept])
    elif not others:
        print_line("no savepoints")
    for name, what in others.items():
        print_line(f"{name}: {what}")


def _row(one: StoredSavepoint, now_s: float) -> tuple[str | int, ...]:
    found, state = one.manifest, "to be moved"
    if found.kind.value == "copy":
        state = "copy"
    elif one.move is not None:
        state = f"moved to {one.moved_to}" if one.moved_to else f"being moved to {one.moving_to}"
    age = f"{(now_s - found.made_at) / 3600:.1f} h"
    return one.name, str(found.pipeline), found.epoch, age, found.size_bytes, state


def check(savepoint: Savepoint, *, as_json: AsJson = False) -> None:
    """Compare every byte of a savepoint with its checksums. Changes nothing. Ends with 1 when it is damaged."""
    from tpc.coordinator.operations.commands.savepoint_targets import fetched
    from tpc.coordinator.operations.savepoints.locations import home_and_name
    from tpc.coordinator.operations.savepoints.restoring import opened
    from tpc.coordinator.operations.savepoints.retention import look_at
    from tpc.data_status import annotate_errors, data_status_for_reader

    with annotate_errors(data_status_for_reader), fetched(savepoint) as (folder, _):
        manifest, _history = opened(folder)
        kept = look_at(*home_and_name(str(folder)))
    if as_json:
        print_json({**kept.to_json(time.time()), "savepoint": without_user(savepoint), "whole": True})
    else:
        print_line(f"whole: {len(manifest.files)} files of {manifest.pipeline} after epoch {manifest.epoch}")


def drop(
    savepoint: Savepoint,
    *,
    force: Annotated[bool, typer.Option("--force", help="also one without which its pipeline cannot go on")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove a savepoint. Changes: its files are deleted. One that is its pipeline's only home is refused."""
    from tpc.coordinator.operations.savepoints.locations import home_and_name
    from tpc.coordinator.operations.savepoints.retention import drop as dropped

    _tell_dropped([dropped(*home_and_name(savepoint), force=force)], as_json=as_json)


def prune(
    place: Savepoints,
    *,
    keep: Annotated[int, typer.Option(min=0, help="so many of each incarnation stay, the newest")] = 1,
    older_than_days: Annotated[float, typer.Option(min=0.0, help="younger ones stay too")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Remove old savepoints. Changes: their files are deleted. One that is its pipeline's only home stays."""
    from tpc.coordinator.operations.savepoints.locations import home_of
    from tpc.coordinator.operations.savepoints.retention import prune as pruned

    _tell_dropped(pruned(home_of(place), keep=keep, older_than_days=older_than_days), as_json=as_json)


def _tell_dropped(places: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"dropped": places})
        return
    for place in places:
        print_line(f"dropped {place}")
    if not places:
        print_line("nothing to drop")
