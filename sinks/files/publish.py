"""Publishes the files of one decided epoch: all of them, by one manifest, or none.

Rename every staged file, fsync the directories, put the manifest. All branches share one answer, since there is one
manifest: were one of them lost, the others are produced again with it. What was renamed without a manifest is seen by
no reader.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.files.layout import Layout, newest_epoch, newest_manifest
from tpc.sinks.files.manifest import manifest_bytes, read_manifest, void_bytes
from tpc.support.deadlines import within
from tpc.support.durable_files import in_words, put_if_absent, remove, remove_interrupted_puts, sync


def publish_epoch(layout: Layout, branches: Sequence[Committable], timeout_s: float) -> dict[Handle, Outcome]:
    """The outcome of every branch; all of them of one epoch and sink."""
    try:
        outcome = within(timeout_s, lambda: _publish(layout, branches), waiting_for="the file system")
    except OSError as error:
        remedy = f"; {SHARE_IT}" if isinstance(error, PermissionError) else ""
        outcome = Outcome(Verdict.UNKNOWN, in_words(error) + remedy)
    return {branch.handle: outcome for branch in branches}


def give_up_epoch(layout: Layout, branches: Sequence[Committable]) -> list[GivenUp]:
    """End the branches of an epoch that are not published: a manifest of no files takes its place, for good.

    Then the files go, staged ones first, so that none is renamed after it was looked for. Raises `OSError`.
    """
    handle = branches[0].handle
    layout.identity.stat()  # an empty mount point looks like a directory from which everything was lost
    path = layout.manifest(handle.pipeline, handle.sink, handle.epoch)
    named: set[Handle] = set()
    if not put_if_absent(path, void_bytes(handle)):
        named = {file.handle for file in read_manifest(path, layout.root).files}
    for branch in branches:
        if branch.handle not in named:
            remove(layout.staging / str(branch.data["file"]))
            remove(layout.root / str(branch.data["file"]))
    return [GivenUp.COMMITTED if branch.handle in named else GivenUp.UNDONE for branch in branches]


def _publish(layout: Layout, branches: Sequence[Committable]) -> Outcome:
    handle = branches[0].handle
    manifest = layout.manifest(handle.pipeline, handle.sink, handle.epoch)
    if manifest.exists():
        return _published_before(manifest, layout.root, branches)
    if not layout.identity.exists():
        # An empty mount point looks like a directory from which everything was lost.
        return Outcome(Verdict.UNKNOWN, f"{layout.identity} is not there: is the file system mounted?")
    for branch in branches:
        answer = _moved(layout, branch)
        if answer is not None:
            return answer
    sync(layout.root)
    sync(layout.staging)
    if put_if_absent(manifest, manifest_bytes(branches)):
        return Outcome(Verdict.COMMITTED, f"manifest of epoch {handle.epoch} put")
    return _published_before(manifest, layout.root, branches)


def _published_before(path: Path, root: Path, branches: Sequence[Committable]) -> Outcome:
    """The manifest is there: it names these branches and no others, or something is wrong for good."""
    sync(path.parent)  # whoever put it may not have come so far
    remove_interrupted_puts(path)
    if path.read_bytes() == manifest_bytes(branches):
        return Outcome(Verdict.ALREADY, f"manifest of epoch {branches[0].handle.epoch} is there")
    try:
        named = {file.handle for file in read_manifest(path, root).files}
    except CorruptionError as error:
        return Outcome(Verdict.REFUSED, error.what)
    missing = sorted(str(branch.handle) for branch in branches if branch.handle not in named)
    return Outcome(
        Verdict.REFUSED,
        f"{path} is there with other bytes than this epoch's; it does not name {', '.join(missing) or 'only these'}",
    )


def _moved(layout: Layout, branch: Committable) -> Outcome | None:
    """Bring a staged file to its place; an outcome if that cannot be done."""
    name = str(branch.data["file"])
    staged, target = layout.staging / name, layout.root / name
    try:
        size_bytes = staged.stat().st_size
    except FileNotFoundError:
        return _gone(layout, branch, target)
    if size_bytes != branch.size_bytes:
        return Outcome(Verdict.REFUSED, f"{staged} has {size_bytes} bytes, {branch.size_bytes} were prepared")
    os.rename(staged, target)  # noqa: PTH104  Path.rename is the same; the name says what the protocol does
    return None


def _gone(layout: Layout, branch: Committable, target: Path) -> Outcome | None:
    """Nothing is staged: the file was renamed before, or it is lost."""
    try:
        with target.open("rb") as file:
            digest = hashlib.sha256()
            while block := file.read(1024 * 1024):
                digest.update(block)
    except FileNotFoundError:
        newest = newest_epoch(layout.manifests_of(branch.handle.pipeline, branch.handle.sink))
        expected = branch.data.get("after")
        if newest != expected:
            what = f"{target.name} is gone and the newest manifest is of epoch {newest}, not {expected} as at prepare"
            return Outcome(Verdict.UNKNOWN, f"{what}: was a backup restored?", contradiction=True)
        base = branch.data.get("base")
        if base is not None and base != layout.base_of(branch.handle.pipeline, branch.handle.sink):
            what = f"{target.name} is gone, and the manifest directory is not the one that was there at prepare"
            return Outcome(Verdict.UNKNOWN, f"{what}: were manifests removed?", contradiction=True)
        return Outcome(Verdict.LOST, f"{target.name} is neither staged nor renamed")
    if digest.hexdigest() != branch.data["sha256"]:
        return Outcome(Verdict.REFUSED, f"{target} is not the file that was prepared: its SHA-256 differs")
    return None


# What several users of one directory need there: each renames and removes files that another has staged.
#
# That takes rights on directories alone, never on the files in them; manifests, owner entries and the identity must be
# readable.

SHARE_IT = (
    "let all users that run this pipeline be in the group of the directory: there, chgrp -R that group, "
    "chmod -R g+rwX,-t, find -type d -exec chmod g+s {} +; and start each of them with umask 002. Or run it as the "
    "user that it has had."
)


def refuse_without_rights(layout: Layout, pipeline: PipelineId, sink: str) -> None:
    """Raises `ConfigurationError` for a directory in which this user could not finish what another has begun."""
    for directory in _used(layout, pipeline, sink):
        found = directory.stat()
        mode = stat.S_IMODE(found.st_mode)
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            what = "may not list and write"
        elif directory != layout.root and mode & stat.S_ISVTX and os.geteuid() not in (0, found.st_uid):
            what = "may not rename what others have put (sticky bit) in"
        else:
            continue
        whose = f"user {found.st_uid}, group {found.st_gid}, mode {mode:04o}"
        raise ConfigurationError(
            f"this user ({os.geteuid()}, group {os.getegid()}) {what} {directory}, which is of {whose}",
            sink=sink,
            remedy=SHARE_IT,
        )


def _used(layout: Layout, pipeline: PipelineId, sink: str) -> Iterator[Path]:
    """The directories that a commit, an abort or an owner entry changes. Of those that are not there, what is above."""
    own = layout.staging.parent
    manifests, owners = layout.manifests_of(pipeline, sink), layout.owners_of(pipeline, sink)
    used = [layout.root, layout.staging, layout.manifests, manifests, owners]
    newest = newest_manifest(manifests)
    if newest is not None:
        used += [newest.parent.parent, newest.parent]
    for path in used:
        there = next((one for one in (path, *path.parents) if one.exists()), own)
        # Above the root nothing is made but the root itself. A file in a directory's place is no matter of rights.
        if there.is_relative_to(layout.root) and there.is_dir():
            yield there
