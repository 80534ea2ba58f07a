"""What the text of a checkpoint says of its place, and which intent log lies beside it.

A path or a `file:` URL is a directory of this machine; every other URL is for the job's runtime to reach.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from tpc.coordinator.kernel.checkpoint import Checkpoint, LocalCheckpoint
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.log.object_store import SCHEMES
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.errors import ConfigurationError

NOTES = "TPC_NOTES"
"""Names the directory of this machine for the notes on checkpoints that are elsewhere."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_elsewhere(place: str) -> bool:
    """Whether a text names a checkpoint that is no directory of this machine."""
    url = _URL.match(place)
    return url is not None and url[1].lower() != "file"


def log_beside(checkpoint: Checkpoint) -> Log:
    """Where the log of a pipeline lies that names no other place.

    Raises `ConfigurationError` where nothing beside the checkpoint can put if absent.
    """
    if isinstance(checkpoint, LocalCheckpoint):
        return LocalLog(checkpoint.root / LOG_FOLDER)
    scheme = str(checkpoint).partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"no intent log can lie beside the checkpoint {checkpoint}: of {scheme!r} it is not certain that a file is "
            "put only if it is absent",
            remedy="give the job log=SqlLog(...) or log=ObjectLog(...), and commands --log.",
        )
    return ObjectLog(f"{checkpoint}/{LOG_FOLDER.as_posix()}", prefix="")


def local_root(checkpoint: Checkpoint) -> Path:
    """The directory of a checkpoint on this machine. Raises `ConfigurationError` for one elsewhere."""
    if isinstance(checkpoint, LocalCheckpoint):
        return checkpoint.root
    raise ConfigurationError(
        f"the checkpoint {checkpoint} is no directory of this machine: no savepoint is made of it",
        remedy="to go on from another machine, start there with the same checkpoint; nothing has to be moved. To keep "
        "a copy, stop the pipeline and copy the checkpoint and its log with the store's own tools.",
    )


def require_local(new: Path) -> None:
    """Raises `ConfigurationError` for the place of a checkpoint to be made that was meant as a URL."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(new)) and not str(new).startswith("file:"):
        raise ConfigurationError(
            f"{new}, where the checkpoint is to be made, is no directory of this machine",
            remedy="name a local directory; copy it to its place before the first start, with the store's own tools.",
        )


def notes_on(url: str) -> Path:
    """A directory for each checkpoint; of what lies there nothing has to outlive the machine."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        room = Path(os.environ.get(NOTES) or f"{home}/tpc").expanduser()
    except RuntimeError:  # a container's user often has neither HOME nor an entry in the list of users
        raise ConfigurationError(
            f"user {os.getuid()} has no home directory, where notes on the checkpoint {url} would lie",
            remedy=f"set {NOTES} to a directory of this machine that this user may write.",
        ) from None
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url)[-60:].strip("-")
    return room / f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
