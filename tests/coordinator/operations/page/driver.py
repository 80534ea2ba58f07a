"""A pipeline's driver with a Spark of its own, to be killed.

`python -m tests.coordinator.operations.page.driver FOLDER PORT [EPOCH]`.
Reads the files of `FOLDER/feed`, one an epoch, and writes them to the sink `archive`; its checkpoint is
`FOLDER/checkpoint`, its own page at PORT. What it has prepared of EPOCH is spoiled right after it was decided: the sink
must refuse it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tpc
from tests.support.feed import SCHEMA
from tpc import failpoints
from tpc.chaos.servers.spark_session import spark_session
from tpc.errors import TpcError
from tpc.sinks import FileSink


def spoil_at(epoch: int, files: Path) -> None:
    """Cut the staged files of `epoch` short, once its intent is durable."""

    def spoil(_: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == epoch:
            for staged in (files / "_tpc" / "staging").iterdir():
                staged.write_bytes(b"spoiled")

    failpoints.install({"epoch.decided": spoil})


def main(folder: Path, port: int, spoiled: int | None) -> None:
    """Run until somebody ends it."""
    if spoiled is not None:
        spoil_at(spoiled, folder / "archive")
    spark = spark_session("driver", directory=folder / "spark")
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    pipeline = tpc.pipeline("archive", checkpoint=folder / "checkpoint")
    rows = pipeline.write(reader.json(str(folder / "feed")))
    rows.to(FileSink(folder / "archive", format="json", name="archive"), where="id >= 0", select=["id", "key", "value"])
    try:
        pipeline.start(serve=tpc.Serve(page=port)).awaitTermination()
    except TpcError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
