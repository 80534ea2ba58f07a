"""The Valkey example with one defect each that only a server shows; the kit must reject them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import test_valkey_sink
import valkey
import valkey_sink
from valkey.backoff import NoBackoff
from valkey.retry import Retry
from valkey_sink import ValkeySink, ValkeyStore

from tpc.handles import PipelineId
from tpc.sink import Committable, Outcome, Owner, Verdict
from tpc.sinks.authoring import AtomicCommitter, Published

PUSH = """
redis.call('SADD', KEYS[2], ARGV[1])
for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return redis.call('LLEN', KEYS[1])
"""
PUBLISH_AT_LEAST = valkey_sink.PUBLISH.replace("held ~= tonumber", "held < tonumber")


class PushesAgain(ValkeySink):
    """The client repeats what was not answered, pieces have no place, and 'at least' is taken for 'exactly'."""

    class Store(ValkeyStore):
        wanted = 0

        def __init__(self, sink: ValkeySink) -> None:
            super().__init__(sink)
            again = {"retry": Retry(NoBackoff(), 3), "retry_on_error": [valkey.ConnectionError]}
            self.client.connection_pool.connection_kwargs.update(again)

        def stage(self, branch: str, place: int, rows: Sequence[bytes]) -> int:
            self.wanted = place + len(rows)
            return min(self.wanted, int(self.script(PUSH, branch, "", *rows)))

        def held(self, branch: str) -> int:
            return min(self.wanted, super().held(branch))

        def publish(self, branch: str, rows: int, key: str) -> Published:
            return Published(self.script(PUBLISH_AT_LEAST, branch, key, rows))

    def connect(self) -> ValkeyStore:
        return self.Store(self)


class SilenceIsConsent(ValkeySink):
    """Takes a commit that was not answered in time for done."""

    class Committer(AtomicCommitter):
        def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
            return [
                Outcome(Verdict.COMMITTED, "it was sent") if "Timeout" in outcome.evidence else outcome
                for outcome in super().commit(committables)
            ]

    def committer(self, pipeline: PipelineId) -> AtomicCommitter:
        return self.Committer(self, pipeline)


class WaitsForEver(ValkeySink):
    """Waits for an answer as long as that takes."""

    def connect(self) -> ValkeyStore:
        store = ValkeyStore(self)
        store.client.connection_pool.connection_kwargs["socket_timeout"] = None
        return store


class OwnerOnlyOnce(ValkeySink):
    """Does not know its own owner entry when the reply to it was lost."""

    class Committer(AtomicCommitter):
        def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
            return self.owner() == before and super().take_ownership(owner, before)

    def committer(self, pipeline: PipelineId) -> AtomicCommitter:
        return self.Committer(self, pipeline)


class Kit(test_valkey_sink.TestValkeySink):
    __test__ = False
    sink_class: type[ValkeySink]
    deadline_s = 3.0

    def sink_at(self, tmp_path: Path, host: str, port: int, name: str = "a") -> Any:
        sink = super().sink_at(tmp_path, host, port, name)
        sink.__class__ = self.sink_class
        return sink


class TestPushesAgain(Kit):
    __test__ = True
    sink_class = PushesAgain


class TestSilenceIsConsent(Kit):
    __test__ = True
    sink_class = SilenceIsConsent


class TestWaitsForEver(Kit):
    __test__ = True
    sink_class = WaitsForEver


class TestOwnerOnlyOnce(Kit):
    __test__ = True
    sink_class = OwnerOnlyOnce
