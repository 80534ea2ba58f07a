"""The driver's half of an effects sink: decides what is staged, and has a carrier carry out what is complete.

A carrier begins where a coordinator leads that writes epochs: `check` was asked, and ownership taken. Commands that
only finish or sweep call nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import FencedError, TpcError
from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, GivenUp, Marker, Outcome, Owner
from tpc.sinks.authoring.staged import StagedCommitter
from tpc.sinks.effects.branches import Branches
from tpc.sinks.effects.calls import Calls
from tpc.sinks.effects.carrier import Carrier
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.writer import check_columns
from tpc.support.file_systems import REMOTE, file_system

if TYPE_CHECKING:
    from tpc.sinks.effects.sink import EffectSink

logger = logging.getLogger(__name__)


class EffectCommitter(StagedCommitter):
    """Decides, aborts and lists branches; tells the carrier."""

    sink: EffectSink

    def __init__(self, sink: EffectSink, pipeline: PipelineId) -> None:
        super().__init__(sink, pipeline)
        self._database = Database(sink.path, sink.timeout_s)
        self._branches = Branches(self._database, self.key, f"{pipeline}/{sink.name}")
        self._calls = Calls(self._database, self.key)
        self._writes_epochs = False
        self._owner: Owner | None = None
        self._carrier: Carrier | None = None

    def check(self, context: CheckContext) -> None:
        """Make the outbox, and see that every row can be an effect. Warns of an outbox on a remote file system."""
        check_columns(self.sink, context.schema)
        self._database.identity()
        kind = file_system(self.sink.path.absolute())
        if kind in REMOTE:
            logger.warning(
                "sink %s: the outbox %s is on a remote file system (%s): its locks and fsync must work between all "
                "machines that may be driver, or an effect may be carried out twice or be lost",
                *(self.sink.name, self.sink.path, kind),
            )
        self._writes_epochs = True

    def missing(self) -> str | None:
        """The outbox, or the directory that is to have it."""
        return self._database.missing()

    def identity(self) -> str:
        """Which outbox this is."""
        return f"effects:{self._database.identity()}"

    # Branches --------------------------------------------------------------------------------------------------

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest epoch whose effects are decided here."""
        return self._branches.newest_marker()

    def publish(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Each branch in a transaction; then what is staged of it is not needed any more."""
        outcomes = []
        for branch in committables:
            outcomes.append(self._branches.publish(branch, self.sink.staging.path(branch.handle)))
            if outcomes[-1].settled:
                self.sink.staging.remove(branch.handle)
        return outcomes

    def withdraw(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """A note that they are given up, unless they are decided."""
        return [self._branches.withdraw(branch) for branch in committables]

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Older markers may go, and what was done long ago."""
        if committables:
            self._branches.prune(epoch, self.sink.keep_s)

    # Effects ---------------------------------------------------------------------------------------------------

    def hint(self) -> JSONObject:
        """Which epoch is the newest, for evidence. It is asked before each epoch: here that waits for effects."""
        if self.sink.wait and self._carrier is not None:
            self._carrier.wait()
        return self._branches.evidence()

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """As every sink; its effects are carried out under this term."""
        taken = super().take_ownership(owner, before)
        if taken:
            self._owner = owner
        return taken

    def completed(self, epoch: int) -> None:
        """Every epoch up to this one is complete: its effects are carried out from now on."""
        if self._owner is None or self.sink.call is None or not self._writes_epochs:
            return
        if self._carrier is None:
            self._carrier = Carrier(self.sink, self.sink.call, self._calls, self._owner)
            self._carrier.start()
        elif self._carrier.owner != self._owner:
            self._carrier.renew(self._owner)
        self._carrier.carry_to(epoch)

    def close(self) -> None:
        """Wait for the effects, if the pipeline waits for them; begin no call any more."""
        if self._carrier is None:
            return
        try:
            if self.sink.wait:
                self._carrier.wait()
        except FencedError:
            pass
        except TpcError as error:
            logger.warning("%s; the next start carries them on", error.what)
        finally:
            self._carrier.stop()
            self._carrier = None
