"""A branch as a test remembers it."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.sink import Committable
from tpc.testing.readers import Rows


@dataclass(frozen=True)
class Branch:
    """A prepared branch: what a task handed back, and the rows it had got."""

    committable: Committable
    rows: Rows

    @property
    def resource(self) -> str:
        """Its name in the system."""
        return self.committable.resource
