"""What the newest intent rests on, asked of the disk right after a power cut: Spark's files, whole and as decided.

Reads the files itself: of the state, the changes of every version that a commit names, back to the first, must be
there, and no byte of them may differ from their checksums (a snapshot that spares older ones does not count); of a file
source, every list of files that a decided epoch has read.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from tpc.chaos.checkers.compare import SHOWN, Check
from tpc.manifest import Manifest

_NAME = "what the newest intent rests on survived the power cut"
_HEADER = 8


def rests_on(checkpoint: Path, newest: Manifest | None) -> Check:
    """Whether all of it is there. `newest` is the manifest of the newest decided epoch; None: none is decided."""
    if newest is None:
        return Check(_NAME, True, "nothing is decided")
    wrong = list(_wrong(checkpoint, newest))
    detail = f"epoch {newest.epoch}: {'all is there' if not wrong else f'{len(wrong)} files are not whole'}"
    return Check(_NAME, not wrong, detail, tuple(wrong[:SHOWN]))


def _wrong(checkpoint: Path, newest: Manifest) -> Iterator[str]:
    epoch_input = newest.epoch_input
    if _text(checkpoint / "offsets" / str(newest.epoch)) != epoch_input.offsets_file:
        yield f"offsets/{newest.epoch} is not what was decided"
    if epoch_input.base_commit is not None:
        commit = _text(checkpoint / "commits" / str(newest.epoch - 1))
        if commit is None or hashlib.sha256(commit.encode()).hexdigest() != epoch_input.base_commit:
            yield f"commits/{newest.epoch - 1} is not what was decided"
        else:
            yield from _wrong_state(checkpoint, newest.epoch - 1)
    for index, end in enumerate(epoch_input.end):
        yield from _wrong_lists(checkpoint / "sources" / str(index), end)


def _wrong_state(checkpoint: Path, batch: int) -> Iterator[str]:
    """The versions that this batch and those before it made."""
    for version in range(batch + 1, 0, -1):
        text = _text(checkpoint / "commits" / str(version - 1))
        if text is None:
            return  # Spark has pruned it
        ids = json.loads(text.split("\n", 1)[1]).get("stateUniqueIds") or {}
        for operator, partitions in ids.items():
            for partition, of_stores in enumerate(partitions):
                place = checkpoint / "state" / operator / str(partition)
                for unique_id in of_stores:
                    if not any(map(_is_sound, place.glob(f"**/{version}_{unique_id}.changelog"))):
                        yield f"{place.relative_to(checkpoint)}: version {version} with id {unique_id}"


def _wrong_lists(folder: Path, end: str) -> Iterator[str]:
    offset = json.loads(end).get("logOffset") if end.startswith("{") else None
    for k in range(0 if offset is None else offset + 1):
        if not any(_is_sound(folder / name) for name in (str(k), f"{k}.compact")):
            yield f"{folder.name}/{k} of the sources' logs"


def _is_sound(path: Path) -> bool:
    """There, and byte for byte what its checksum file says, which must be there too."""
    try:
        data, sums = path.read_bytes(), path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return False
    if not data or len(sums) < _HEADER:
        return False
    (size,) = struct.unpack_from(">i", sums, 4)
    return sums[_HEADER:] == b"".join(
        struct.pack(">I", zlib.crc32(data[start : start + size])) for start in range(0, len(data), size)
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
