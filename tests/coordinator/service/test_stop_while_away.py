"""A service that is idle, and whose systems are silent, ends within seconds of SIGTERM."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.processes import line, python
from tpc.errors import TransientError
from tpc.sources import KafkaSource

STOPS_S = 25.0
"""A silent client waits for longer."""

SILENT = """
import sys, time
from pathlib import Path
import tpc
from tpc.coordinator import EngineSettings
from tpc.sinks import FileSink
from tpc.sources import IterableSource

class Silent(FileSink):
    def committer(self, pipeline):
        made = super().committer(pipeline)
        in_doubt = made.in_doubt
        def asked():
            if not any((directory / "out").glob("*.parquet")):  # the service is starting
                return in_doubt()
            print("asked", flush=True)
            time.sleep(600)
        made.in_doubt = asked
        return made

directory = Path(sys.argv[1])
service = tpc.service("silent", directory=directory / "service", settings=EngineSettings(sweep_interval_s=0.5))
numbers = service.read(IterableSource(range(5), name="numbers"))
@service.each(numbers)
def taken(number, out):
    out.row("rows", {"n": number})
service.write("rows", {"n": int}).to(Silent(directory / "out", name="out"))
service.run(every=tpc.seconds(0.01))
print("returned", flush=True)
"""


@pytest.mark.slow
def test_sigterm_does_not_wait_for_a_sink_that_is_silent(tmp_path: Path) -> None:
    with python(SILENT, tmp_path) as process:
        assert line(process) == "asked"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOPS_S) == 0
        assert line(process) == "returned"


def test_a_poll_and_a_close_do_not_wait_for_a_broker_that_is_away() -> None:
    reader = KafkaSource("clicks", servers="127.0.0.1:1", look_again_s=0.0, timeout_s=60.0).reader()
    began_s = time.monotonic()
    for _ in range(3):
        assert reader.poll(1, 0.01) == 0
    reader.close()
    assert time.monotonic() - began_s < STOPS_S
    with pytest.raises(TransientError):
        KafkaSource("clicks", servers="127.0.0.1:1", timeout_s=0.1).reader().seek(None)
