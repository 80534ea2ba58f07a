"""The file sink: one manifest per epoch publishes the files of all its branches.

Readers of what it has written import from here: `committed_files`, `committed_paths`, `read_manifests`.
"""

from tpc.sinks.files.manifest import CommittedFile, FileManifest, committed_files, committed_paths, read_manifests

__all__ = ["CommittedFile", "FileManifest", "committed_files", "committed_paths", "read_manifests"]
