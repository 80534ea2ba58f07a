"""Which kind of file system a path lies on. What must not lie on which one is the caller's affair."""

from __future__ import annotations

from pathlib import Path

_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "beegfs", "ceph", "glusterfs", "gpfs", "lustre")
_PROGRAMS = ("ceph", "ceph-fuse", "gcsfuse", "glusterfs", "goofys", "juicefs", "mount-s3", "rclone", "s3fs", "sshfs")
REMOTE = frozenset({*_NETWORK, *(f"fuse.{name}" for name in _PROGRAMS)})
"""Kinds of other machines, whose links, locks and fsync cannot be relied on."""


def file_system(path: Path) -> str:
    """The kind of file system `path` lies on, as Linux names it; empty where that is unknown."""
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
