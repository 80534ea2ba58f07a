"""What several users of one directory need there: each renames and removes files that another has staged.

That takes rights on directories alone, never on the files in them; manifests, owner entries and the identity must be
readable.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sinks.files.layout import Layout, newest_manifest

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
