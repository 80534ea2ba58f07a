"""One coordinator's work: the protocol's machine is driven by events, and its effects are carried out in order.

`loop` drives; `effects` carries out, with `puts` and `commits`, which repeat what was not answered; `times` knows what
is due. Nothing is decided here: what follows what stands in `tpc.machine`. Spark is not known either: the pass over a
batch is handed in (`EpochRunner`), so that the same engine runs under a simulator.
"""

from __future__ import annotations

from tpc.coordinator.kernel.engine.loop import Engine
from tpc.coordinator.kernel.engine.runner import EpochRunner
from tpc.coordinator.kernel.engine.settings import EngineSettings

__all__ = ["Engine", "EngineSettings", "EpochRunner"]
