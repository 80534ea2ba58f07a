"""For authors of sinks: the conformance kit, a reference sink to read, and what a sink guarantees in words.

    from tpc.testing import SinkConformance

    class TestMySink(SinkConformance): ...

Needs pytest. See `SinkConformance` for the hooks; `tpc.testing.broken` holds sinks that the kit rejects.
"""

from tpc.testing.conformance import SinkConformance
from tpc.testing.guarantee import guarantee

__all__ = ["SinkConformance", "guarantee"]
