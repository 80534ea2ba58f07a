"""Other processes for the kit: one that uses a committer and ends, and writers that are killed with SIGKILL.

A process gets the pickled sink, the environment and JSON, nothing else: no memory, connection or file of the test.
Where the platform has a fork server it is used, since it starts a process in milliseconds; else processes are spawned.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import pyarrow

from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committable, Sink
from tpc.testing import killed, paused
from tpc.testing.killed import Death
from tpc.testing.paused import Pause

START_S = 60.0
"""How long a process may take beyond the deadline of its calls, to start and to import."""


class ProcessFailed(AssertionError):  # noqa: N818  it is a failed test, and reads as one
    """The other process raised, died or did not answer in time; the text says which, with its traceback."""


def ask(sink: Sink, pipeline: PipelineId, method: str, *arguments: Any, deadline_s: float) -> Any:
    """What a committer's `method` answers in a new process; committables travel as JSON, as they do in the log."""
    travelling = [_packed(argument) for argument in arguments]
    return _in_process("_ask", (sink, pipeline, method, travelling), deadline_s=deadline_s)


def prepare_and_die(
    sink: Sink, handle: Handle, batches: Sequence[pyarrow.RecordBatch], hint: JSONObject, *, deadline_s: float
) -> Committable | None:
    """Prepare a branch in a process that is killed (SIGKILL) as soon as it has reported the committable."""
    text = _in_process("_prepare", (sink, handle, list(batches), hint), deadline_s=deadline_s)
    return None if text is None else Committable.from_json(json.loads(text))


def write_and_die(
    sink: Sink, handle: Handle, batches: Sequence[pyarrow.RecordBatch], hint: JSONObject, *, deadline_s: float
) -> None:
    """Write a branch, without preparing it, in a process that is killed (SIGKILL) after the last row."""
    _in_process("_write", (sink, handle, list(batches), hint), deadline_s=deadline_s)


def die(what: str, *arguments: Any, deadline_s: float) -> Death:
    """The outcome of a process that was killed right before one of its acts; `what` is a function of `killed`."""
    death: Death = _in_process(f"_{what}_and_die", arguments, deadline_s=deadline_s)
    return death


def give_up_and_pause(
    sink: Sink, pipeline: PipelineId, committables: Sequence[Committable], at: int, *, deadline_s: float
) -> Pause:
    """The outcome of a give-up that was stopped right before one of its acts while others committed."""
    work = (sink, pipeline, list(committables), at)
    pause: Pause = _in_process("_give_up_and_pause", work, deadline_s=deadline_s)
    return pause


def _in_process(name: str, arguments: Sequence[Any], *, deadline_s: float) -> Any:
    """Run a function of this module in a new process, kill that when it has answered, and return the answer."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    # A fork server has the environment of its start; settings read with `tpc.env` are those of the test.
    payload = pickle.dumps((name, tuple(arguments)))
    process = context.Process(target=_serve, args=(theirs, payload, dict(os.environ)), daemon=True)  # type: ignore[attr-defined]  # both contexts have it
    process.start()
    theirs.close()
    try:
        if not ours.poll(deadline_s + START_S):
            raise ProcessFailed(f"another process did not answer within {deadline_s + START_S:g} s ({name[1:]})")
        good, answer = ours.recv()
    except EOFError:
        process.join(START_S)
        raise ProcessFailed(f"another process ended with code {process.exitcode} before it answered") from None
    finally:
        process.kill()
        process.join(START_S)
        ours.close()
    if not good:
        raise ProcessFailed(f"another process could not do it ({name[1:]}):\n{answer}")
    return answer


def _serve(connection: Connection, payload: bytes, environment: Mapping[str, str]) -> None:
    """The whole life of the other process: it answers and waits to be killed."""
    os.environ.update(environment)
    time.tzset()  # the zone is one of the settings
    try:
        name, arguments = pickle.loads(payload)
        answer = (True, _SERVED[name](*arguments))
        connection.send(answer)
    except BaseException:  # noqa: BLE001  the test wants to know whatever it was
        connection.send((False, traceback.format_exc()))
    # The kernel closes the pipe when this process is killed; until then nothing is flushed, closed or aborted.
    connection.poll(None)


def _ask(sink: Sink, pipeline: PipelineId, method: str, travelling: Sequence[Any]) -> Any:
    committer = sink.committer(pipeline)
    try:
        return getattr(committer, method)(*[_unpacked(argument) for argument in travelling])
    finally:
        committer.close()


_kept: list[Any] = []
"""Writers of this process, so that no destructor tidies up before the kill."""


def _prepare(sink: Sink, handle: Handle, batches: Sequence[pyarrow.RecordBatch], hint: JSONObject) -> str | None:
    writer = sink.writer(handle, batches[0].schema, hint)
    _kept.append(writer)
    for batch in batches:
        writer.write(batch)
    committable = writer.prepare()
    return None if committable is None else json.dumps(committable.to_json())


def _write(sink: Sink, handle: Handle, batches: Sequence[pyarrow.RecordBatch], hint: JSONObject) -> None:
    writer = sink.writer(handle, batches[0].schema, hint)
    _kept.append(writer)
    for batch in batches:
        writer.write(batch)


_SERVED: Mapping[str, Callable[..., Any]] = {
    "_ask": _ask,
    "_prepare": _prepare,
    "_write": _write,
    "_commit_and_die": killed.commit_and_die,
    "_abort_and_die": killed.abort_and_die,
    "_write_and_die": killed.write_and_die,
    "_give_up_and_pause": paused.give_up_and_pause,
}


def _packed(argument: Any) -> Any:
    """Lists of committables as JSON text; anything else travels pickled."""
    if isinstance(argument, list):
        return [json.dumps(item.to_json()) if isinstance(item, Committable) else item for item in argument]
    return argument


def _unpacked(argument: Any) -> Any:
    if isinstance(argument, list):
        return [Committable.from_json(json.loads(item)) if isinstance(item, str) else item for item in argument]
    return argument
