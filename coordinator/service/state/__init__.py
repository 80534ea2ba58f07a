"""State of a service: what functions keep between events, a participant of every epoch like any sink.

    sink = StateSink("waiting", "/data/pairs/state")     # one more sink of the pipeline
    state = sink.state(pipeline, dict, ttl_s=300.0)      # what the function sees; `sink.state(pipeline, "disk")`
    state.restore()                                      # after recovery: what the store has applied
    state.begin(7, watermark_ms=...)
    state["a"] = {"count": state.get("a", {"count": 0})["count"] + 1}
    writer.write(state.changes())                        # the cut: prepared, decided and committed with the epoch

An epoch's changes are prepared as one redo delta, and applied with the epoch's number in one transaction of the store.
What an epoch has changed can be taken back until it is complete, so that it can be run again for another sink.
"""

from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.state.state import State

__all__ = ["State", "StateSink"]
