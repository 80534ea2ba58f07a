from __future__ import annotations

from collections.abc import Iterator

import pytest

from tpc.sinks.effects.carrier import Carrier


@pytest.fixture(autouse=True)
def carriers_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No carrier outlives its test, also of a test that fails, as it must for a broken sink.

    The carriers of these tests wait for nothing between two tries: one whose outbox is gone would keep a processor
    busy, and write warnings into the tests that follow.
    """
    begun: list[Carrier] = []
    start = Carrier.start

    def noted(self: Carrier) -> None:
        begun.append(self)
        start(self)

    monkeypatch.setattr(Carrier, "start", noted)
    yield
    for carrier in begun:
        carrier.stop()
