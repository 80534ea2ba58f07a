"""What the judge holds to be decided, when records of a repair are lost and others take their place."""

from __future__ import annotations

import random

import pytest

from tests.core.builders import branch, generation_body, intent, manifest
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.plan import FaultPlan
from tpc.chaos.simulator.world import Halted, World
from tpc.manifest import Branch
from tpc.records import Record, RecordKind

pytestmark = pytest.mark.slow  # much computing


class Log:
    """A ledger that has seen generation 1 and the intent of epoch 0, and the branches of a sink's one partition."""

    def __init__(self) -> None:
        self.ledger = Ledger(World(0, random.Random(0), FaultPlan()))
        self.slot = 0
        self.land(RecordKind.GENERATION, generation_body(1))
        kind, body = intent(manifest(0, {"a": 1}))
        self.land(kind, dict(body))

    def land(self, kind: RecordKind, body: dict[str, object]) -> int:
        self.slot += 1
        self.ledger.on_landed(self.slot, Record(self.slot, kind, "nonce", body).encode())
        self.ledger.on_durable([self.slot])
        return self.slot

    def repair(self, lost: Branch, generation: int) -> tuple[int, Branch]:
        """`lost` is replaced by a branch of a later generation."""
        new = branch("a", 0, generation=generation)
        replacements = {str(lost.committable.handle): new.to_json()}
        body: dict[str, object] = {"epoch": 0, "generation": generation, "replacements": replacements}
        return self.land(RecordKind.REPAIR, body), new


def test_a_repair_that_is_voided_leaves_the_one_before_it_in_force() -> None:
    log = Log()
    _, second = log.repair(branch("a", 0), 2)
    torn, third = log.repair(second, 3)
    log.ledger.forget(torn, for_good=True)
    assert log.ledger.decisions[0].current() == {str(second.committable.handle)}
    _, fourth = log.repair(second, 4)
    log.ledger.on_committed(fourth.committable.handle)
    with pytest.raises(Halted):
        log.ledger.on_committed(third.committable.handle)
