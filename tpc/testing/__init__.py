"""For authors of sinks: the conformance kit, a reference sink to read, and what a sink guarantees in words.

`TransactionalConformance` is the kit for objects that a service keeps (`tpc.make_transactional`).

    from tpc.testing import SinkConformance

    class TestMySink(SinkConformance): ...

Needs pytest. See `SinkConformance` for the hooks; `tpc.testing.broken` holds sinks that the kit rejects.
"""

from tpc.testing.conformance import SinkConformance
from tpc.testing.guarantee import guarantee
from tpc.testing.transactional import TransactionalConformance

__all__ = ["SinkConformance", "TransactionalConformance", "guarantee"]
