"""Publishes the files of one decided epoch: all of them, by one manifest, or none.

Rename every staged file, fsync the directories, put the manifest. All branches share one answer, since there is one
manifest: if one of them is lost, the others are written again with it. Readers do not see a renamed file before its
manifest.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.files.layout import EXTENSIONS, Layout, file_of, newest_epoch, newest_manifest
from tpc.sinks.files.manifest import manifest_bytes, read_manifest, void_bytes
from tpc.support.deadlines import within
from tpc.support.durable_files import in_words, put_if_absent, remove, remove_interrupted_puts, sync


def publish_epoch(layout: Layout, branches: Sequence[Committable], timeout_s: float) -> dict[Handle, Outcome]:
    """The outcome of every branch; all must be of one epoch and sink."""
    try:
        outcome = within(timeout_s, lambda: _publish(layout, branches), waiting_for="the file system")
    except OSError as error:
        where = "" if error.filename else f" in {layout.root}"
        remedy = f"; {what_to_do}" if (what_to_do := remedy_for(error)) else ""
        outcome = Outcome(Verdict.UNKNOWN, f"{in_words(error)}{where}{remedy}")
    except CorruptionError as error:
        outcome = Outcome(Verdict.REFUSED, f"{error.what}; {error.remedy}".rstrip("; "))
    return {branch.handle: outcome for branch in branches}


def give_up_epoch(layout: Layout, branches: Sequence[Committable]) -> list[GivenUp]:
    """End the branches of an epoch that is not published: put a manifest without files, for good.

    Then remove the files, staged ones first: otherwise a file could be renamed after its target was checked. Raises
    `OSError`.
    """
    handle = branches[0].handle
    layout.identity.stat()  # raises for an empty mount point, which looks like a directory that lost everything
    path = layout.manifest(handle.pipeline, handle.sink, handle.epoch)
    named: set[Handle] = set()
    if not put_if_absent(path, void_bytes(handle)):
        named = {file.handle for file in read_manifest(path, layout.root).files}
    for branch in branches:
        if branch.handle not in named:
            for extension in EXTENSIONS.values():  # whatever the record calls the file
                remove(layout.staging / f"{branch.handle}{extension}")
                remove(layout.root / f"{branch.handle}{extension}")
    return [GivenUp.COMMITTED if branch.handle in named else GivenUp.UNDONE for branch in branches]


def _publish(layout: Layout, branches: Sequence[Committable]) -> Outcome:
    handle = branches[0].handle
    manifest = layout.manifest(handle.pipeline, handle.sink, handle.epoch)
    if manifest.exists():
        return _published_before(manifest, layout.root, branches)
    if not layout.identity.exists():
        # An empty mount point looks like a directory that has lost everything.
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
    """The outcome if the manifest exists: it must name exactly these branches, or something is wrong for good."""
    sync(path.parent)  # the process that put it may not have synced the directory yet
    remove_interrupted_puts(path)
    if path.read_bytes() == manifest_bytes(branches):
        return Outcome(Verdict.ALREADY, f"manifest of epoch {branches[0].handle.epoch} exists")
    try:
        named = {file.handle for file in read_manifest(path, root).files}
    except CorruptionError as error:
        return Outcome(Verdict.REFUSED, error.what)
    missing = sorted(str(branch.handle) for branch in branches if branch.handle not in named)
    return Outcome(
        Verdict.REFUSED,
        f"{path} has other bytes than this epoch's manifest; it does not name {', '.join(missing) or 'only these'}",
    )


def _moved(layout: Layout, branch: Committable) -> Outcome | None:
    """Rename a staged file to its target; an outcome if that is not possible."""
    name = file_of(branch)
    staged, target = layout.staging / name, layout.root / name
    try:
        found = staged.lstat()
    except FileNotFoundError:
        return _gone(layout, branch, target)
    if not stat.S_ISREG(found.st_mode):
        return Outcome(Verdict.REFUSED, f"{staged} is not the file that was prepared: it is no regular file")
    if found.st_size != branch.size_bytes:
        return Outcome(Verdict.REFUSED, f"{staged} has {found.st_size} bytes, {branch.size_bytes} were prepared")
    os.rename(staged, target)  # noqa: PTH104  Path.rename is the same; this is the name of the system call
    return None


def _gone(layout: Layout, branch: Committable, target: Path) -> Outcome | None:
    """Without a staged file: None if it was renamed before, else the outcome, such as LOST."""
    try:
        if not stat.S_ISREG(target.lstat().st_mode):
            return Outcome(Verdict.REFUSED, f"{target} is not the file that was prepared: it is no regular file")
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
            what = f"{target.name} is gone, and the manifest directory is not the one at prepare"
            return Outcome(Verdict.UNKNOWN, f"{what}: were manifests removed?", contradiction=True)
        return Outcome(Verdict.LOST, f"{target.name} is neither staged nor renamed")
    if digest.hexdigest() != branch.data["sha256"]:
        return Outcome(Verdict.REFUSED, f"{target} is not the file that was prepared: its SHA-256 differs")
    return None


# The rights that several users of one directory need there: each renames and removes files that another has staged.
#
# Renames and removals need rights on directories only, not on the files in them. Manifests, owner entries and the
# identity must be readable.

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
SHARE_IT = (
    "put all users that run this pipeline into one group, which the directory belongs to: in it run chgrp -R GROUP, "
    "chmod -R g+rwX,-t, find -type d -exec chmod g+s {} +; and start each of them with umask 002. Or run the pipeline "
    "as the user who ran it before."
)


def remedy_for(error: OSError) -> str | None:
    """What to do about an error of the file system in a sink's directory; None where its kind does not tell it."""
    if isinstance(error, PermissionError):
        return SHARE_IT
    return "free space on its disk, or raise the quota" if error.errno in NO_ROOM else None


def refuse_without_rights(layout: Layout, pipeline: PipelineId, sink: str) -> None:
    """Raise `ConfigurationError` for a directory in which this user could not finish what another user has begun."""
    for directory in _used(layout, pipeline, sink):
        found = directory.stat()
        mode = stat.S_IMODE(found.st_mode)
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            what = "may not list and write"
        elif directory != layout.root and mode & stat.S_ISVTX and os.geteuid() not in (0, found.st_uid):
            what = "may not rename other users' files (sticky bit) in"
        else:
            continue
        whose = f"user {found.st_uid}, group {found.st_gid}, mode {mode:04o}"
        raise ConfigurationError(
            f"this user ({os.geteuid()}, group {os.getegid()}) {what} {directory}, which belongs to {whose}",
            sink=sink,
            remedy=SHARE_IT,
        )


def _used(layout: Layout, pipeline: PipelineId, sink: str) -> Iterator[Path]:
    """The directories that a commit, an abort or an owner entry changes; for a missing one the directory above it."""
    own = layout.staging.parent
    manifests, owners = layout.manifests_of(pipeline, sink), layout.owners_of(pipeline, sink)
    used = [layout.root, layout.staging, layout.manifests, manifests, owners]
    newest = newest_manifest(manifests)
    if newest is not None:
        used += [newest.parent.parent, newest.parent]
    for path in used:
        there = next((one for one in (path, *path.parents) if one.exists()), own)
        # Above the root nothing but the root itself is created. A file in a directory's place is not about rights.
        if there.is_relative_to(layout.root) and there.is_dir():
            yield there
