"""One coordinator's work: the protocol's machine is driven by events, and its effects are carried out in order.

`engine` drives; `epoch` is what a runtime calls for each epoch; `effects` carries out, and `puts` and `commit_retries`
repeat what was not answered; `times` knows what is due. Nothing is decided here: what follows what is in `tpc.machine`.
No runtime is known either, so that the same engine runs under a simulator.
"""

from __future__ import annotations

from tpc.coordinator.kernel.engine.engine import Engine
from tpc.coordinator.kernel.engine.epoch import Epoch
from tpc.coordinator.kernel.engine.settings import EngineSettings

__all__ = ["Engine", "EngineSettings", "Epoch"]
