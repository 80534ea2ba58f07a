"""The kind of file system that a path is on. The caller decides which kinds it accepts."""

from __future__ import annotations

from pathlib import Path

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "beegfs", "ceph", "glusterfs", "gpfs", "lustre")
_PROGRAMS = ("ceph", "ceph-fuse", "gcsfuse", "glusterfs", "goofys", "juicefs", "mount-s3", "rclone", "s3fs", "sshfs")
REMOTE = frozenset({*_NETWORK, *(f"fuse.{name}" for name in _PROGRAMS)})
"""Kinds of file systems of other machines: their links, locks and fsync are not reliable."""


def file_system(path: Path) -> str:
    """The kind of file system that `path` is on, by its name in Linux; empty if that is unknown."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return ""
    best, kind = Path("/nowhere"), ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, where, name, *_ = line.split(" ")
        mount = Path(where.replace("\\040", " "))
        if (path == mount or mount in path.parents) and len(mount.parts) >= (len(best.parts) if kind else 0):
            best, kind = mount, name
    return kind
