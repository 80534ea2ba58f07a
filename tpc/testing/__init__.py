"""For authors of sinks: the conformance kit, a reference sink to read, and what a sink guarantees in words.

`SourceConformance` is the kit for sources (`tpc.source.Source`), `TransactionalConformance` the one for objects that a
service keeps (`tpc.make_transactional`).

    from tpc.testing import SinkConformance

    class TestMySink(SinkConformance): ...

Needs pytest. See `SinkConformance` for the hooks; `tpc.testing.broken` holds sinks that the kit rejects.
"""

from tpc.testing.conformance import SinkConformance
from tpc.testing.guarantee import guarantee
from tpc.testing.source_conformance import SourceConformance
from tpc.testing.transactional import TransactionalConformance

__all__ = ["SinkConformance", "SourceConformance", "TransactionalConformance", "guarantee"]
