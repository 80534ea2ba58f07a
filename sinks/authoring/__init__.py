"""For authors of sinks: what a sink on a file system or a table format has to write, written once.

    from tpc.sinks.authoring import StagedCommitter, StagedSink, StagedWriter

These are bases for a sink whose branches are files beside its target until a commit
publishes them; `StagingDirectory` and `OwnerDirectory` are their parts; the functions are durable operations on files.
"""

from tpc.sinks.authoring.owner_directory import OwnerDirectory
from tpc.sinks.authoring.staged import StagedCommitter, StagedSink, StagedWriter
from tpc.sinks.authoring.staging_directory import StagingDirectory
from tpc.support.durable_files import create, make_directories, put_if_absent, remove, replace, sync

__all__ = [
    "OwnerDirectory",
    "StagedCommitter",
    "StagedSink",
    "StagedWriter",
    "StagingDirectory",
    "create",
    "make_directories",
    "put_if_absent",
    "remove",
    "replace",
    "sync",
]
