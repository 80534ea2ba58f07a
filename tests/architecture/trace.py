"""How far a reader has to jump: the calls of one epoch of a service and of one of a pipeline, file by file.

`python -m tests.architecture.trace` runs a service and a pipeline, each of two epochs of eight events, and prints how
many calls, functions and files the second epoch has in the thread that runs it, and how often a call is in another file
than the call before it. `--list service` or `--list pipeline` prints the calls, indented by their depth.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import tpc
from tpc.coordinator.service.running import Running
from tpc.sinks import FileSink
from tpc.sources import IterableSource

ROOT = Path(__file__).resolve().parents[2]
EVENTS = [{"key": key} for key in "abababab"]
_INNER = {"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>"}
"""They stand in the function that is read anyway."""


@dataclass(frozen=True)
class Call:
    file: str
    function: str
    depth: int


@dataclass
class Trace:
    """The calls of this project's functions, in their order, in one thread."""

    calls: list[Call] = field(default_factory=list)
    _depth: int = 0

    def files(self) -> Counter[str]:
        return Counter(call.file for call in self.calls)

    def functions(self) -> set[tuple[str, str]]:
        return {(call.file, call.function) for call in self.calls}

    def changes(self) -> list[tuple[str, str]]:
        """From which file to which one call follows another."""
        files = [call.file for call in self.calls]
        return [(one, other) for one, other in pairwise(files) if one != other]

    @contextmanager
    def running(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        file = _own(frame.f_code.co_filename)
        if file is None or frame.f_code.co_name in _INNER:
            return
        if event == "call":
            self.calls.append(Call(file, frame.f_code.co_name, self._depth))
            self._depth += 1
        elif event == "return":
            self._depth -= 1


_OWN: dict[str, str | None] = {}


def _own(name: str) -> str | None:
    """The path of a file of the product, within the project; None for another."""
    if name not in _OWN:
        path = Path(name).resolve()
        is_own = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ("tpc", "coordinator", "sinks")
        _OWN[name] = str(path.relative_to(ROOT)) if is_own else None
    return _OWN[name]


@contextmanager
def traced(runtime: type[Any], name: str) -> Iterator[list[Trace]]:
    """Trace each call of this method of a runtime, which runs one epoch."""
    traces: list[Trace] = []
    run: Callable[..., Any] = getattr(runtime, name)

    def traced_run(self: Any, *arguments: Any, **named: Any) -> Any:
        traces.append(Trace())
        with traces[-1].running():
            return run(self, *arguments, **named)

    setattr(runtime, name, traced_run)
    try:
        yield traces
    finally:
        setattr(runtime, name, run)


def trace_service(directory: Path) -> Trace:
    """One epoch of eight events, which changes a state and writes to a file; the second of its service."""
    service = tpc.service("tally", directory=directory / "service")
    source = service.read(IterableSource(EVENTS * 2, name="events"))
    counts = service.state("counts")

    @service.each(source)
    def count(event: dict[str, str], out: Any) -> None:
        counts[event["key"]] = counts.get(event["key"], 0) + 1
        out.row("counted", {"key": event["key"], "n": counts[event["key"]]})

    service.write("counted", {"key": str, "n": int}).to(FileSink(directory / "out", name="files"))
    with traced(Running, "_run") as traces:
        service.run(every=len(EVENTS), until_end=True)
    return traces[1]


def trace_pipeline(directory: Path) -> Trace:
    """One epoch of eight rows, which are written to a file; the second of its query."""
    from tpc.chaos.servers.spark_session import spark_session
    from tpc.coordinator.spark.query import PipelineQuery

    spark = spark_session("trace", directory=directory / "spark")
    events = directory / "events"
    events.mkdir()
    for number in range(2):
        (events / f"{number}.json").write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
    read = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(events))
    pipeline = tpc.pipeline("tally", checkpoint=directory / "checkpoint")
    pipeline.write(read).to(FileSink(directory / "out", name="files"))
    with traced(PipelineQuery, "_run_epoch") as traces:
        pipeline.start(trigger={"availableNow": True}).awaitTermination()
    spark.stop()
    return traces[1]


RUNTIMES: dict[str, Callable[[Path], Trace]] = {"service": trace_service, "pipeline": trace_pipeline}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=RUNTIMES, help="print every call of this runtime's epoch, and nothing else")
    chosen = parser.parse_args().list
    for runtime in [chosen] if chosen else RUNTIMES:
        with tempfile.TemporaryDirectory() as directory:
            trace = RUNTIMES[runtime](Path(directory))
        for call in trace.calls if chosen else ():
            sys.stdout.write("  " * call.depth + f"{call.function}  ({call.file})\n")
        sys.stdout.write(
            f"{runtime}: {len(trace.calls)} calls of {len(trace.functions())} functions in {len(trace.files())} files, "
            f"{len(trace.changes())} changes of the file\n"
        )


if __name__ == "__main__":
    main()
