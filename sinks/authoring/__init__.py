"""Base classes for authors of sinks.

    from tpc.sinks.authoring import AtomicSink, Published, Store              # one script or transaction is one act
    from tpc.sinks.authoring import StagedCommitter, StagedSink, StagedWriter  # a file system or a table format

The branches of a staged sink are files beside its target until a commit publishes them. `StagingDirectory` and
`OwnerDirectory` are parts of its base classes; the functions are durable operations on files.
"""

from tpc.sinks.authoring.atomic import AtomicCommitter, AtomicSink, AtomicWriter, Published, Store
from tpc.sinks.authoring.owner_directory import OwnerDirectory
from tpc.sinks.authoring.staged import StagedCommitter, StagedSink, StagedWriter
from tpc.sinks.authoring.staging_directory import StagingDirectory
from tpc.support.durable_files import create, make_directories, put_if_absent, remove, replace, sync

__all__ = [
    "AtomicCommitter",
    "AtomicSink",
    "AtomicWriter",
    "OwnerDirectory",
    "Published",
    "StagedCommitter",
    "StagedSink",
    "StagedWriter",
    "StagingDirectory",
    "Store",
    "create",
    "make_directories",
    "put_if_absent",
    "remove",
    "replace",
    "sync",
]
