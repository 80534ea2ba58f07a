"""The two files that an author starts from: a sink whose methods say what they must do, and the kit on it.

The kit runs from the first minute, and is red: every method that is not written yet says which promise waits for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from tpc.errors import ConfigurationError

SKELETON = Path(__file__).parent / "skeleton"
NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_skeleton(name: str, directory: Path) -> tuple[Path, Path]:
    """Write `<name>_sink.py` and `test_<name>_sink.py` into `directory`; their paths.

    Raises `ConfigurationError` for a name that is none of Python's, and when one of the files is there already.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a module",
            remedy="use lower-case letters, digits and '_', a letter first: clickhouse, delta_lake.",
        )
    words = {"name": name, "Name": "".join(part.title() for part in name.split("_"))}
    files = (directory / f"{name}_sink.py", directory / f"test_{name}_sink.py")
    there = [str(file) for file in files if file.exists()]
    if there:
        raise ConfigurationError(
            f"{' and '.join(there)} is there already", remedy="give another name, or another directory with --dir."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for file, template in zip(files, ("sink.py.txt", "test_sink.py.txt"), strict=True):
        file.write_text(Template((SKELETON / template).read_text()).substitute(words))
    return files
