"""Initialised producers in a worker process, a few in advance.

A transaction needs its own producer object, and making one and initialising its transactional id takes 55 ms, sometimes
500 ms. One thread of the worker does that in the background. It uses only new or released ids, since initialising an id
aborts what is open under it. This module knows nothing of rows, markers or commits.
"""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from tpc.errors import ConfigurationError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId, is_released
from tpc.sinks.kafka.librdkafka import logger
from tpc.sinks.kafka.worker.producer import InitialisedProducer, ProducerSettings
from tpc.support.deadlines import Deadline
from tpc.support.fork_safe_lock import ForkSafeLock

AHEAD = 2
"""Initialised producers kept ready per sink: a worker runs one task at a time, and short tasks follow quickly."""

PAUSE_S = 0.1
"""How often the thread checks whether producers are missing, or a pool is idle."""

IDLE_S = 60.0
"""A pool that was not used for so long is dropped."""

SERVING_AT_MOST = 1024
"""How many ids a worker remembers as possibly still in use; one that is dropped is never used again."""


@dataclass(frozen=True)
class Term:
    """The generation and sink of a pool's producers: no id is used in two generations."""

    pipeline: PipelineId
    generation: int
    sink: str

    def succeeds(self, other: Term) -> bool:
        """Whether this is a later generation of the same sink of the same pipeline."""
        same = (self.pipeline.name, self.sink) == (other.pipeline.name, other.sink)
        later = (self.pipeline.incarnation, self.generation) > (other.pipeline.incarnation, other.generation)
        return same and later


class ProducerPool:
    """The producers of one sink and generation in this process, under its own uuid. Thread-safe."""

    def __init__(self, term: Term, settings: ProducerSettings) -> None:
        self.term = term
        self.settings = settings
        self.idle_until = Deadline(IDLE_S)
        self._worker = uuid.uuid4().hex
        self._slots = 0
        self._free: deque[TransactionalId] = deque()
        self._serving: OrderedDict[TransactionalId, int] = OrderedDict()
        self._ready: deque[InitialisedProducer] = deque()
        self._lock = threading.Lock()

    def acquire(self, epoch: int, released: Mapping[str, Mapping[str, int]]) -> InitialisedProducer:
        """An initialised producer for a branch of `epoch`. `released` are the ids that the hint releases.

        Raises `TransientError` if the cluster does not answer in time.
        """
        with self._lock:
            self.idle_until = Deadline(IDLE_S)
            self._take_back(released)
            ready = self._ready.popleft() if self._ready else None
        if ready is None:
            ready = self._initialised()
        with self._lock:
            self._serving[ready.name] = epoch
            if len(self._serving) > SERVING_AT_MOST:
                self._serving.popitem(last=False)
        return ready

    def top_up(self) -> None:
        """Initialise producers until `AHEAD` are ready, or the pool is dropped."""
        while len(self._ready) < AHEAD and not self.idle_until.passed:
            made = self._initialised()
            with self._lock:
                self._ready.append(made)

    def drop(self) -> None:
        """Drop all waiting producers."""
        with self._lock:
            while self._ready:
                self._ready.popleft().close()

    def _initialised(self) -> InitialisedProducer:
        with self._lock:
            name = self._free.popleft() if self._free else self._fresh()
        made = InitialisedProducer(name, self.settings)
        try:
            made.initialise(self.settings.timeout_s)
        except BaseException:
            made.close()
            raise
        return made

    def _fresh(self) -> TransactionalId:
        self._slots += 1
        term = self.term
        return TransactionalId(term.pipeline, term.generation, term.sink, self._worker, self._slots - 1)

    def _take_back(self, released: Mapping[str, Mapping[str, int]]) -> None:
        done = [name for name, epoch in self._serving.items() if is_released(released, name, epoch)]
        for name in done:
            del self._serving[name]
        self._free.extend(done)


class _Process:
    """The pools of this process, and the thread that tops them up."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._pools: dict[Term, ProducerPool] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        atexit.register(self._end)

    def pool(self, term: Term, settings: ProducerSettings) -> ProducerPool:
        """The pool of `term`; pools of earlier generations are dropped, those of other pipelines stay."""
        with self._changed:
            for other in [other for other in self._pools if term.succeeds(other)]:
                self._pools.pop(other).drop()
            pool = self._pools.get(term)
            if pool is None or pool.settings != settings:
                if pool is not None:
                    pool.drop()
                pool = self._pools[term] = ProducerPool(term, settings)
            return pool

    def top_up_soon(self) -> None:
        """Let the thread make the next producers. It is started when needed and ends once no pool is left."""
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="kafka-producers", daemon=True)
                thread.start()  # may raise if a container's limit of threads is reached: then the next task tries
                self._thread = thread
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                for term in [term for term, pool in self._pools.items() if pool.idle_until.passed]:
                    self._pools.pop(term).drop()
                if not self._pools:
                    self._thread = None
                    return
                pools = list(self._pools.values())
            for pool in pools:
                try:
                    pool.top_up()
                except (TransientError, ConfigurationError) as error:
                    logger.info("no producer made in advance: %s", error.what)  # the task itself tries, and raises
                except Exception:  # noqa: BLE001  if this thread ended, later tasks would get no producers in advance
                    logger.exception("no producer made in advance")
            with self._changed:
                self._changed.wait(PAUSE_S)

    def _end(self) -> None:
        if os.getpid() != self.pid:
            return
        with self._changed:
            pools, self._pools = list(self._pools.values()), {}
            self._changed.notify()
        for pool in pools:
            pool.drop()


_process: _Process | None = None
_inherited: list[_Process] = []  # of a parent process; never freed: the clients' threads do not exist in a fork
_process_lock = ForkSafeLock(fork_waits=False)


def acquire(
    handle: Handle, settings: ProducerSettings, released: Mapping[str, Mapping[str, int]]
) -> InitialisedProducer:
    """An initialised producer for one branch; the next ones are made in the background.

    Raises `TransientError` if the cluster does not answer within the timeout.
    """
    global _process  # noqa: PLW0603 - a worker process outlives its tasks, and its producers with it
    with _process_lock:
        if _process is not None and _process.pid != os.getpid():
            _inherited.append(_process)
            _process = None
        if _process is None:
            _process = _Process()
        process = _process
    pool = process.pool(Term(handle.pipeline, handle.generation, handle.sink), settings)
    producer = pool.acquire(handle.epoch, released)
    process.top_up_soon()
    return producer
