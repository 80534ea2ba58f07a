"""What a service keeps of its epochs beside the intent log, as a coordinator asks for it: nothing.

The intent log alone says which epochs there are and where each source stood. The states lie in sinks of the service's
own, which are asked as every sink is.
"""

from __future__ import annotations

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.runtime import NO_QUERY
from tpc.errors import HistoryMismatchError
from tpc.history import History


class ServiceRuntime:
    """Of one service, in `checkpoint`, its directory. See `tpc.coordinator.kernel.runtime.Runtime`."""

    finds_sources_by_name = True

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def check_identity(self, history: History) -> None:
        """The log must be that of a service. Nothing has to be written back."""
        if history.query_id not in (None, NO_QUERY):
            raise HistoryMismatchError(
                f"the intent log is that of query {history.query_id}, not of a service",
                remedy="give the service a directory of its own; start the pipeline where the log is.",
            )

    def has_begun(self) -> bool:
        """No position is kept but in the log."""
        return False

    def replayed(self, history: History) -> int | None:
        """A complete epoch is not computed again: nothing but the log has to learn of its end."""
        return None

    def check_begun_with(self, history: History) -> None:
        """Nothing but the log knows of an epoch's end."""

    def own_id(self) -> str | None:
        """The word for it."""
        return NO_QUERY

    def close(self) -> None:
        """Nothing is held."""
