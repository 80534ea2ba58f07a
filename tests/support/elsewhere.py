"""A branch that another process writes, as an executor does: with a pickled sink, and an environment of its own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Sink

_PROGRAM = """
import json, logging, pickle, sys

logging.basicConfig(level=logging.DEBUG)
sink, handle, batch, hint = pickle.load(open(sys.argv[1], "rb"))
writer = sink.writer(handle, batch.schema, hint)
writer.write(batch)
print(json.dumps(writer.prepare().to_json()))
"""
TIMEOUT_S = 60.0


def prepared_elsewhere(
    directory: Path, sink: Sink, handle: Handle, batch: pa.RecordBatch, hint: JSONObject, variables: Mapping[str, str]
) -> tuple[Committable, str]:
    """The branch, prepared by a process with these variables, and all that the process has printed and logged."""
    path = directory / "branch.pickle"
    path.write_bytes(pickle.dumps((sink, handle, batch, hint)))
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return Committable.from_json(json.loads(told.stdout.splitlines()[-1])), told.stdout + told.stderr
