"""Publishes the files of one decided epoch: all of them, by one manifest, or none.

Rename every staged file, fsync the directories, put the manifest. All branches share one answer, since there is
one manifest: were one of them lost, the others are produced again with it. What was renamed without a manifest is
seen by no reader.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from tpc.errors import CorruptionError
from tpc.handles import Handle
from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.files.layout import Layout, newest_epoch
from tpc.sinks.files.manifest import manifest_bytes, read_manifest, void_bytes
from tpc.sinks.files.rights import SHARE_IT
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
