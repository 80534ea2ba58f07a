"""Do log, sinks, sources and checkpoint agree? Asked of each by a start, a `tpc check`, and right before a claim.

The questions stand in the order in which they are asked. Whether the answers agree is decided in the core, by
`tpc.consistency` first of all. Nothing of the pipeline's is changed here, so that a start that is refused has changed
nothing; what a runtime asks its sources besides is part of its `Preparation`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import chain

from tpc.ancestors import Ancestor
from tpc.consistency import (
    check_bound_sinks,
    check_empty_log,
    check_fork_identities,
    check_fork_sink,
    check_lost_commits,
    check_missing_targets,
    check_moved_sinks,
    check_owners,
    check_pipeline,
    check_removed_sinks,
    holds_epochs,
)
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.kernel.runtime import Runtime
from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.damaged_log_end import check_damage, check_void_is_proven
from tpc.errors import ConfigurationError, HistoryMismatchError, TpcError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.schemas import Columns, check_schemas
from tpc.sink import CheckContext, InDoubt, Limit, Marker, Sink

logger = logging.getLogger(__name__)


class Preflight:
    """The questions of one coordinator. What is refused raises a `TpcError` that says what to do.

    `inputs` and `schemas` are what this start reads, and the columns of the rows that it writes; `inputs` is None where
    it reads nothing. `runtime` is asked for what it keeps itself beside the log.
    """

    def __init__(self, pipeline: PipelineId, journal: Journal, participants: Participants, runtime: Runtime) -> None:
        self._pipeline = pipeline
        self._journal = journal
        self._participants = participants
        self._runtime = runtime

    # At every start, and for every command ----------------------------------------------------------------------

    def read(self) -> History:
        """Whose log is it? Returns its history; no sink is asked."""
        check_pipeline(history := self._journal.open(), self._pipeline, self._journal.log.describe())
        return history

    def read_with_targets(self) -> History:
        """Are the targets that hold epochs there?

        The log is read before the sinks are asked, so that an error of theirs can say what is decided.
        """
        history = self.read()
        holding = [name for name in self._participants.sinks if holds_epochs(history, name)]
        check_missing_targets(history, self._participants.missing(holding))
        return history

    # Before the first epoch of a start --------------------------------------------------------------------------

    def check_start(
        self, contexts: Mapping[str, CheckContext], inputs: WantedInputs | None, schemas: Mapping[str, Columns]
    ) -> None:
        """Can this start go on from the log, and take part with every sink? The sinks' checks may make own tables."""
        history = self.read_with_targets()
        self._runtime.check_identity(history)
        self._check_rows(history, inputs, schemas)
        self._participants.check(contexts)

    # Right before a claim ---------------------------------------------------------------------------------------

    def check_claim(
        self, inputs: WantedInputs | None, schemas: Mapping[str, Columns], *, void_unproven: bool = False
    ) -> tuple[History, dict[str, str]]:
        """Do log and sinks agree? Returns the history that was compared, and the identity of each sink.

        Sinks are asked after the log was read, and the log may go on meanwhile: then all is asked again.
        `void_unproven`: an operator has decided that the damaged end of the log is void, unless a sink contradicts.
        """
        identities = self._participants.identities()
        while True:
            history = self.read()
            try:
                check_bound_sinks(history, identities)
                check_removed_sinks(history, identities)
                self._check_rows(history, inputs, schemas)
                self._check_sinks(history, identities, void_unproven=void_unproven)
            except (HistoryMismatchError, ConfigurationError):
                if max(self._journal.log.slots(), default=0) == history.next_slot - 1:
                    raise
                logger.info("the log has gone on while the sinks were asked: reading it again")
            else:
                return history, identities

    def _check_rows(self, history: History, inputs: WantedInputs | None, schemas: Mapping[str, Columns]) -> None:
        """Are the sources and the columns those on record?"""
        if inputs is not None:
            inputs.check(history, self._runtime)
        check_schemas(history.schemas, schemas, str(history.pipeline))

    def _check_sinks(self, history: History, identities: Mapping[str, str], *, void_unproven: bool) -> None:
        """Do the sinks report what the log says?"""
        asked = self._participants
        markers = asked.newest_markers(history)
        if history.damaged:
            self._check_damage(history, markers, void_unproven=void_unproven)
        if history.pipeline is None:
            listed = asked.in_doubt()
            own = {
                name: [doubt for doubt in doubts if doubt.pipeline == self._pipeline] for name, doubts in listed.items()
            }
            asked.tell_waiting(own)  # before the refusal, which does not say who waits
            check_empty_log(self._pipeline, markers, asked.owners(), listed)
            self._runtime.check_begun_with(history)
            return
        # The fork first: what `check_moved_sinks` advises for another target would lead into the ancestor's.
        self._check_fork(history, identities)
        check_moved_sinks(history, markers, identities)
        asked.check_markers(history, markers)
        written = [name for name in asked.sinks if history.last_epoch_of(name) is not None]
        check_lost_commits(history, chain.from_iterable(asked.in_doubt(written).values()))

    def _check_damage(self, history: History, markers: Mapping[str, Marker | None], *, void_unproven: bool) -> None:
        """May the damaged end of the log be voided?"""
        owners, where = self._participants.owners(), self._journal.log.where(history.damaged[0].slot)
        check_damage(history, markers, owners, where)
        if not void_unproven:
            sinks = self._participants.sinks.items()
            fenced = {name for name, sink in sinks if Limit.OWNER_NOT_FENCED not in sink.limits}
            check_void_is_proven(history, markers, owners, fenced, where)

    def _check_fork(self, history: History, identities: Mapping[str, str]) -> None:
        """Does a fork write to targets of its own? Asked at every start: an ancestor may be given one of them later."""
        for ancestor in history.ancestors:
            check_fork_identities(self._pipeline, ancestor, identities)
            for sink in self._participants.sinks.values():
                self._check_fork_sink(ancestor, sink)

    def _check_fork_sink(self, ancestor: Ancestor, sink: Sink) -> None:
        committer = sink.committer(ancestor.pipeline)
        try:
            check_fork_sink(self._pipeline, ancestor, sink.name, committer.newest_marker(), committer.owner())
        except TpcError as error:
            raise error.located(pipeline=str(self._pipeline), sink=sink.name) from error
        finally:
            committer.close()

    # For a command that claims nothing --------------------------------------------------------------------------

    def check_owners(self) -> None:
        """Are the owner entries in the sinks those of the log? A claim compares them as it takes ownership."""
        owners = self._participants.owners()  # before the log is read: a generation is there before any sink knows it
        check_owners(self.read(), owners)

    def lost_epochs(self, history: History, in_doubt: Mapping[str, Sequence[InDoubt]]) -> str | None:
        """Which sink has lost epochs of the log, so that the next start is refused, in words; None if none has.

        Asked are the sinks that hold something prepared, as before a sweep. `in_doubt` is what each of them holds. The
        tables, or the store, of a sink that holds nothing may not be there.
        """
        markers = self._participants.newest_markers(history, in_doubt)
        try:
            self._participants.check_before_sweep(history, in_doubt, markers)
        except HistoryMismatchError as error:
            return f"sink {error.sink}: {error.what}"
        return None
