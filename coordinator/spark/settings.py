"""Settings of Spark that the guarantee rests on: refused by name where they break it, set where they are missing.

Spark copies the session's settings when a query starts, so what a query needs is set for the moment of its start
and put back afterwards: other queries of the session keep their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError
from tpc.sink import Sink
from tpc.support.file_systems import REMOTE, file_system
from tpc.support.fork_safe_lock import ForkSafeLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

settings_lock = ForkSafeLock(fork_waits=False)
"""Held while settings of a session are changed for a moment, and while a query takes them over.

Pipelines that start at the same time share a session. One would take the other's for the user's own, or lose its own.
"""
_NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
_STATE = "spark.sql.streaming.stateStore."
STATEFUL_SETTINGS: Mapping[str, str] = {
    f"{_STATE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}checkpointFormatVersion": "2",
    f"{_STATE}rocksdb.changelogCheckpointing.enabled": "true",
}
"""What a stateful query must run with: with format v1 a batch that Spark skips corrupts the state for good."""


def refuse_connect(session: Any) -> None:
    """Raise for Spark Connect, where the batch function runs in a server's process."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "Spark Connect cannot run a two-phase commit: foreachBatch runs in a process of the server",
            remedy="start the pipeline in the driver itself (SparkSession.builder.master(...)).",
        )


_TRIGGERS: Mapping[str, type] = {"processingTime": str, "availableNow": bool, "once": bool}
_TRIGGER_REMEDY = 'pass trigger={"processingTime": "1 second"} or trigger={"availableNow": True}, or none.'


def refuse_trigger(trigger: Any) -> None:
    """Raise for triggers that have no epochs, and for what is no trigger at all."""
    if not isinstance(trigger, Mapping):
        hint = f' (for {trigger!r}: {{"processingTime": {trigger!r}}})' if isinstance(trigger, str) else ""
        raise ConfigurationError(
            f"trigger= is a {type(trigger).__name__}, it should be a dictionary{hint}", remedy=_TRIGGER_REMEDY
        )
    for name, value in trigger.items():
        if name not in _TRIGGERS:
            raise ConfigurationError(
                f"trigger {name!r} has no micro-batches to commit as epochs",
                remedy=f"use one of {sorted(_TRIGGERS)}: {_TRIGGER_REMEDY}",
            )
        # Spark takes None for "not given", and an interval that it cannot read or False for an error of Java.
        if not isinstance(value, _TRIGGERS[name]) or value in (False, ""):
            wanted = "an interval in words" if _TRIGGERS[name] is str else "True"
            raise ConfigurationError(
                f"the value of trigger {name!r} is {value!r}, it should be {wanted}", remedy=_TRIGGER_REMEDY
            )
    if len(trigger) > 1:
        raise ConfigurationError(
            f"trigger= has {len(trigger)} entries ({', '.join(sorted(trigger))}), it should have one",
            remedy=_TRIGGER_REMEDY,
        )


_NO_OPTIONS: Mapping[str, str] = {
    "queryname": "the query has the pipeline's name",
    "trigger": 'pass pipeline.start(trigger={"processingTime": "1 second"})',
    "processingtime": 'pass pipeline.start(trigger={"processingTime": "1 second"})',
    "availablenow": 'pass pipeline.start(trigger={"availableNow": True})',
    "once": 'pass pipeline.start(trigger={"once": True})',
}
"""Methods of Spark's stream writer, and arguments of them, that are taken for options; what to do instead."""


def refuse_options(options: Mapping[str, str]) -> None:
    """Raise for writer options that break the guarantee."""
    for name, value in options.items():
        if name.lower() == "asyncprogresstrackingenabled" and value.lower() == "true":
            raise ConfigurationError(
                "asyncProgressTrackingEnabled lets Spark's log lag behind an epoch", remedy="remove the option."
            )
        if name.lower() == "outputmode" and value.lower() != "append":
            raise ConfigurationError(
                f"output mode {value!r}: a pipeline runs in append mode, where each row is written once, when it is "
                "final",
                remedy="remove the option. Write the changes of an aggregation as rows, and let a merge by key of the "
                "sink add them up.",
            )
        if name.lower() in _NO_OPTIONS:
            raise ConfigurationError(
                f"{name!r} is no option of Spark's stream writer, which would pass over it",
                remedy=f"remove the option; {_NO_OPTIONS[name.lower()]}.",
            )


def refuse_active_query(session: SparkSession, name: str) -> None:
    """Raise where a query of this name runs in the session.

    Spark refuses a second one only at its start. What leads by then is the new start, and the query that ran has ended.
    """
    for query in session.streams.active:
        if query.name == name:
            raise ConfigurationError(
                f"a query named {name!r} runs in this Spark session (id {query.id})",
                pipeline=name,
                remedy="stop that query first, with its stop(). A takeover is of another process's pipeline, or of "
                "another session's.",
            )


def refuse_named_sources(session: SparkSession) -> None:
    """Raise where Spark (4.3 and later) keeps a source's offset under a name: the log keeps them in order."""
    if str(session.conf.get(_NAMED_SOURCES, "false")).lower() == "true":
        raise ConfigurationError(
            f"{_NAMED_SOURCES}=true: Spark's log has offsets under names then, where an epoch's cannot be read",
            remedy=f"set {_NAMED_SOURCES}=false, and leave out .name(...) of the sources.",
        )


def refuse_speculation(session: SparkSession, sinks: Mapping[str, Sink]) -> None:
    """Raise where a second attempt of a task would wait for the locks of the first."""
    if session.conf.get("spark.speculation", "false") != "true":
        return
    for name, sink in sinks.items():
        if sink.kind == "postgres":
            raise ConfigurationError(
                "spark.speculation=true with a PostgreSQL sink: a second attempt waits for the first one's locks",
                sink=name,
                remedy="set spark.speculation=false.",
            )


def local_checkpoint(path: str, *, explicit_log: bool) -> Path:
    """The checkpoint, a path or a `file:` URL, as a local path.

    Raises for mounts of remote file systems, whose links and fsync cannot be relied on.
    """
    local = Path(path.removeprefix("file://").removeprefix("file:")).absolute()
    kind = file_system(local)
    if kind in REMOTE and not explicit_log:
        raise ConfigurationError(
            f"the checkpoint {local} is on a remote file system ({kind}), where put-if-absent is not certain",
            remedy="pass log=LocalLog('/a/local/directory') to tpc.pipeline.",
        )
    return local


def retained_batches(session: SparkSession) -> int:
    """How many batches Spark keeps in its log; the intent log must reach as far back."""
    return int(session.conf.get("spark.sql.streaming.minBatchesToRetain") or 100) + 1


@contextmanager
def stateful_settings(session: SparkSession) -> Iterator[None]:
    """Run the block with what a stateful query needs; explicit settings that contradict it are refused."""
    with settings_lock:
        yield from _stateful_settings(session)


def _stateful_settings(session: SparkSession) -> Iterator[None]:
    explicit = explicit_settings(session)
    for key, value in STATEFUL_SETTINGS.items():
        if explicit.get(key, value) != value:
            raise ConfigurationError(
                f"{key}={explicit[key]} breaks the recovery of a stateful query",
                remedy=f"set {key}={value}, or leave it unset: it is the default of a pipeline.",
            )
    for key, value in STATEFUL_SETTINGS.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in STATEFUL_SETTINGS:
            if key not in explicit:
                session.conf.unset(key)


_AVAILABLE_NOW = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
INITIALIZED_WITHIN_S = 120


@contextmanager
def available_now_for_tables(session: SparkSession) -> Iterator[Callable[[StreamingQuery], None]]:
    """A query that is started in the block reads under the trigger availableNow all that there is, of a table too.

    Otherwise Spark runs a single batch for a query with a source of Python: after a crash that of the crash alone, and
    of the other sources no more than once. Gives what waits until the query has looked at the setting.
    """
    with settings_lock:
        before = explicit_settings(session).get(_AVAILABLE_NOW)
        session.conf.set(_AVAILABLE_NOW, "true")
        try:
            yield lambda query: query._jsq.streamingQuery().awaitInitialization(INITIALIZED_WITHIN_S * 1000)
        finally:
            if before is None:
                session.conf.unset(_AVAILABLE_NOW)
            else:
                session.conf.set(_AVAILABLE_NOW, before)


def explicit_settings(session: SparkSession) -> dict[str, str]:
    """The settings somebody has made in this session, without Spark's defaults."""
    iterator = session._jsparkSession.conf().getAll().iterator()
    settings = {}
    while iterator.hasNext():
        pair = iterator.next()
        settings[pair._1()] = pair._2()
    return settings
