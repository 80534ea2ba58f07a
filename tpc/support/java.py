"""Finds the Java runtime, and raises an error with a remedy if there is none of a version that works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from tpc.errors import JavaNotFoundError

ANSWER_TIMEOUT_S = 30


def find_java() -> str:
    """The path of a `java` of version 17, or 21 and above: of JAVA_HOME if that is set, else on the PATH.

    Raises `JavaNotFoundError` with what was found instead, and how to get one. A JAVA_HOME of another version is
    refused and not passed over: what starts Java later (PySpark) chooses in the same order.
    """
    return _checked(os.environ.get("JAVA_HOME"), os.environ.get("PATH"))


@lru_cache(maxsize=8)
def _checked(java_home: str | None, path: str | None) -> str:
    java = str(Path(java_home, "bin", "java")) if java_home else shutil.which("java", path=path)
    if java is None:
        raise JavaNotFoundError("no Java runtime: `java` is not on the PATH and JAVA_HOME is not set")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ANSWER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotFoundError(f"{java} is no working Java runtime ({error})") from error
    version = major_version(answer.stderr)
    if version != 17 and version < 21:
        raise JavaNotFoundError(f"{java} is Java {version or 'of an unknown version'}; 17, or 21 and above, is needed")
    return java


def major_version(text: str) -> int:
    """The major version out of what `java -version` prints: 17 of "17.0.15", 8 of "1.8.0_392"; 0 if it says none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else 0
