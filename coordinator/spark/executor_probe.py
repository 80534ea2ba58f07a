"""What one executor answers: which Python and packages it has, which settings it can read, which directory it sees.

Sent by its source, since an executor may not have this library: the standard library only, and nothing at the top that
is not needed by `answer`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pickle
import platform
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

QUESTION = "question"
"""The file in a shared directory that the driver has written."""


def answer(question: Mapping[str, Any], task: int) -> dict[str, Any]:
    """Never raises for what is missing: the words of it are the answer, under what it is needed for."""
    time.sleep(question["pause_s"])  # so that every executor gets a task
    executor = f"{socket.gethostname()}-{os.getppid()}"
    wrote = f"{executor}-{task}-{time.time_ns()}"
    return {
        "host": socket.gethostname(),
        "directory": _own_directory(),
        "executor": executor,
        "wrote": wrote,
        "python": platform.python_version(),
        "modules": {module: _imported(module) for module in question["modules"]},
        "versions": {package: _version(package) for package in question["packages"]},
        "settings": {name: _readable(setting) for name, setting in question["settings"].items()},
        "directories": {path: _shared(Path(place), wrote) for path, place in question["places"].items()},
    }


def _imported(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  a library that cannot be loaded may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""  # as where it came in an archive (--py-files)


def _own_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:  # it was taken away under the process, as by a deployment
        return f"a directory that is gone: {error.strerror}"


def _readable(setting: Any) -> str:
    """The value itself goes nowhere. `setting` is the object, or pickled for another process."""
    try:
        kept = pickle.loads(setting) if isinstance(setting, bytes) else setting
    except ImportError:
        return ""  # this library itself is missing, which is told already
    except Exception as error:  # noqa: BLE001  a user's class may raise anything
        return f"a setting cannot be loaded: {type(error).__name__}: {error}"
    try:
        kept.read()
    except Exception as error:  # noqa: BLE001  a user's class may raise anything
        return str(getattr(error, "what", error))
    return ""


def _shared(place: Path, name: str) -> str:
    """The driver's file must be there; an answer is put beside it."""
    try:
        if (place / QUESTION).read_text(encoding="utf-8") != place.name:
            return "another file lies there"
        (place / name).write_text(place.name, encoding="utf-8")
    except OSError as error:
        return str(error.strerror)
    return ""
