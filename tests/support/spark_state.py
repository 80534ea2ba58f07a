"""A checkpoint with state as Spark leaves it, made of small files: versions of stores, what describes them, sources."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

_CHUNK = 512
_END_OF_STREAM = b"LZ4Block\x15" + bytes(12)


def write(path: Path, data: bytes) -> Path:
    """A file with its checksum file, as Hadoop writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    sums = (zlib.crc32(data[start : start + _CHUNK]) for start in range(0, len(data), _CHUNK))
    checksums = b"crc\0" + struct.pack(">i", _CHUNK) + b"".join(struct.pack(">I", each) for each in sums)
    path.with_name(f".{path.name}.crc").write_bytes(checksums)
    return path


class StateOnDisk:
    """The state of one operator in `partitions` partitions, and the log of a file source."""

    def __init__(self, checkpoint: Path, partitions: int = 2, stores: Sequence[str] = ("",)) -> None:
        self.checkpoint = checkpoint
        self.operator = checkpoint / "state" / "0"
        self.partitions = partitions
        self.stores = stores
        write(self.operator / "_metadata" / "metadata", b'v1\n{"operatorInfo":{}}')
        for partition in range(partitions):
            for store in stores:
                write(self.operator / str(partition) / store / "_metadata" / "schema", b"v3\nschema")

    def unique_id(self, batch: int, partition: int, store: str = "") -> str:
        """The id of the version that a batch makes."""
        return f"id{batch}-{partition}{store}"

    def commit_text(self, batch: int) -> str:
        """What `commits/batch` says."""
        ids = [
            [self.unique_id(batch, partition, store) for store in self.stores] for partition in range(self.partitions)
        ]
        return "v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": ids}})

    def file(self, batch: int, partition: int, ending: str, store: str = "") -> Path:
        """The changelog or the snapshot of the version that a batch makes."""
        name = f"{batch + 1}_{self.unique_id(batch, partition, store)}.{ending}"
        return self.operator / str(partition) / store / name

    def run(self, batch: int) -> None:
        """A batch commits its state, and what its source has found."""
        for partition in range(self.partitions):
            for store in self.stores:
                changes = b"LZ4Block changes of a batch" + _END_OF_STREAM
                write(self.file(batch, partition, "changelog", store), changes)
        write(self.checkpoint / "sources" / "0" / str(batch), self.list_text(batch, batch).encode())

    def snapshot(self, batch: int, partition: int, store: str = "") -> Path:
        """The maintenance makes a snapshot of a version; the table that it lists."""
        path = self.file(batch, partition, "zip", store)
        table = write(path.parent / "SSTs" / f"{batch}-{partition}.sst", b"rows of a table")
        listed = {"dfsSstFileName": table.name, "sizeBytes": table.stat().st_size}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("metadata", "v2\n" + json.dumps({"sstFiles": [listed]}))
        write(path, path.read_bytes())
        return table

    @staticmethod
    def list_text(first: int, last: int) -> str:
        """What a file source writes of the files that it found from `first` to `last`."""
        lines = (json.dumps({"path": f"file:///in/{k}", "timestamp": k, "batchId": k}) for k in range(first, last + 1))
        return "\n".join(["v1", *lines])
