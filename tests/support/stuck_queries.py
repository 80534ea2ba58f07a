"""Queries of Spark that do not stop: their names, and where the threads stand that hold them."""

from __future__ import annotations

import sys
import threading
import time
import traceback

from pyspark.sql import SparkSession

STOP_S = 30.0
FRAMES = 12
_JVM_THREADS = ("stream execution thread", "Executor task launch worker", "stdout writer", "stdin writer")


def stop_queries(session: SparkSession) -> str:
    """Stop what runs in the session; empty, or what does not stop within `STOP_S` and where it stands."""
    threads = {query.name: threading.Thread(target=query.stop, daemon=True) for query in session.streams.active}
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + STOP_S
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    stuck = [str(name) for name, thread in threads.items() if thread.is_alive()]
    return "\n".join([", ".join(stuck), *_of_the_jvm(session), *_of_python()]) if stuck else ""


def _of_the_jvm(session: SparkSession) -> list[str]:
    lines = []
    for thread, frames in dict(session._jvm.Thread.getAllStackTraces()).items():  # type: ignore[union-attr]
        name = str(thread.getName())
        if name.startswith(_JVM_THREADS):
            lines += [f"JVM {name}: {thread.getState()}", *(f"    {frame}" for frame in list(frames)[:FRAMES])]
    return lines


def _of_python() -> list[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines = []
    for ident, frame in sys._current_frames().items():
        places = traceback.extract_stack(frame)[-FRAMES:]
        lines += [f"Python {names.get(ident)}:", *(f"    {at.filename}:{at.lineno} {at.name}" for at in places)]
    return lines
