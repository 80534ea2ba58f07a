"""A copy of a simulated log that goes its own way, without faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tpc.coordinator.kernel.log.contract import Log


class CopiedLog(Log):
    """A copy of the log's files, which goes its own way."""

    def __init__(self, content: Mapping[int, bytes]) -> None:
        self.content = dict(content)

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """See `Log.put`."""
        if after is not None:
            self.require_before(slot, after)
        return self.content.setdefault(slot, data) == data

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`."""
        return self.known_and_followed(slot, data, is_followed=slot + 1 in self.content)

    def slots(self) -> list[int]:
        """See `Log.slots`."""
        return sorted(self.content)

    def read(self, slot: int) -> bytes:
        """See `Log.read`."""
        return self.content[slot]

    def delete(self, slots: Sequence[int]) -> None:
        """See `Log.delete`."""
        for slot in slots:
            del self.content[slot]

    def describe(self) -> str:
        """See `Log.describe`."""
        return "a copy of the log"
