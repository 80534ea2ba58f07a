"""The committer of the MongoDB sink: lists, commits and aborts branches.

`check` has the checks before the first epoch, `commit_epoch` the commit of a decided epoch. An outbox document of an
epoch that the marker settles is garbage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, CorruptionError, TpcError
from tpc.findings import Finding
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner, Verdict
from tpc.sinks.mongo.commit_epoch import EpochCommit
from tpc.sinks.mongo.connection import (
    Client,
    DocumentDatabase,
    connect,
    runs_transactions,
    transient,
)
from tpc.sinks.mongo.markers import MARKERS, NO_EPOCH, EpochMarker, Markers, marker_id_of
from tpc.sinks.mongo.outbox import OUTBOX, Outbox
from tpc.sinks.mongo.owners import OWNERS, Owners, owner_of
from tpc.sinks.mongo.transactions import MAX_TRANSACTION_OPERATIONS, fits_a_transaction
from tpc.sinks.shared.owner_entry import ANY_PIPELINE

if TYPE_CHECKING:
    from tpc.sinks.mongo.sink import MongoSink


class MongoCommitter(Committer):
    """Commits, aborts and lists the branches of one pipeline in one database."""

    def __init__(self, sink: MongoSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline
        self._client: Client | None = None
        self._transactions: bool | None = None
        self._run: str | None = None

    @property
    def client(self) -> Client:
        """The connection, opened by the first call that needs it."""
        if self._client is None:
            self._client = connect(self.sink.uri, self.sink.timeout_s)
        return self._client

    @property
    def database(self) -> DocumentDatabase:
        """The database of target, outbox and markers."""
        return self.client[self.sink.database_name()]

    @property
    def outbox(self) -> Outbox:
        """The outbox of this database."""
        return Outbox(self.database[OUTBOX])

    @property
    def owners(self) -> Owners:
        """The owner entries of this database."""
        return Owners(self.database[OWNERS])

    @property
    def markers(self) -> Markers:
        """The markers of this database."""
        return Markers(self.database[MARKERS])

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # Before an epoch -------------------------------------------------------------------------------------------

    def check(self, context: CheckContext) -> None:
        """Refuse what would fail later; creates the collections and logs the guarantee. See `check`."""
        from tpc.sinks.mongo.check import check

        check(self.sink, self.client, context)

    def findings(self, context: CheckContext) -> list[Finding]:
        """For `tpc doctor`."""
        from tpc.sinks.mongo.check import findings

        return findings(self.sink, self.client)

    def identity(self) -> str:
        """The installation's uuid (kept in the marker collection), database and collection."""
        with transient("asking MongoDB who it is", sink=self.sink.name):
            return f"mongo:{self.markers.installation()}/{self.sink.database_name()}.{self.sink.collection}"

    def hint(self) -> JSONObject:
        """The newest marked epoch and the marker's base (the evidence for a lost branch), the mode, and the run."""
        with transient("reading the MongoDB marker", sink=self.sink.name):
            marker = self.markers.read_with_base(self.pipeline, self.sink.name)
            mode = "transaction" if self.transactional(0) else "guarded"
            if self._run is None:  # read once: it does not change as long as the owner entry exists
                self._run = self.owners.run(self.pipeline, self.sink.name)
        hint: JSONObject = {"after": marker.epoch, "base": marker.base, "mode": mode}
        return {**hint, "run": self._run} if self._run else hint

    def transactional(self, operations: int) -> bool:
        """Whether an epoch with this number of operations is applied in one transaction."""
        if self.sink.mode != "auto":
            return self.sink.mode == "transaction"
        if self._transactions is None:
            self._transactions = runs_transactions(self.client)
        return self._transactions and fits_a_transaction(operations)

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Refuse an epoch that mode 'transaction' could not apply in one transaction; read the marker."""
        operations = sum(committable.rows for committable in committables)
        if self.sink.mode == "transaction" and not fits_a_transaction(operations):
            raise ConfigurationError(
                f"{operations} operations are too many for one MongoDB transaction ({MAX_TRANSACTION_OPERATIONS})",
                sink=self.sink.name,
                epoch=committables[0].handle.epoch,
                remedy="make epochs smaller, or use mode='auto', which applies large epochs guarded.",
            )
        return self.newest_marker(since_generation)

    # A decided epoch -------------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Apply decided branches, epoch by epoch in order; what fails is UNKNOWN and can be committed again."""
        try:
            epoch_commit = self._epoch_commit
        except TpcError as error:  # the environment variable of the uri is not set any more
            return [Outcome(Verdict.UNKNOWN, error.what)] * len(committables)
        outcomes: dict[Handle, Outcome] = {}
        for epoch in sorted({committable.handle.epoch for committable in committables}):
            branches = [committable for committable in committables if committable.handle.epoch == epoch]
            outcomes.update(epoch_commit.commit(branches))
        return [outcomes[committable.handle] for committable in committables]

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Block these branches in the marker and remove their outbox, unless the marker has them as committed."""
        if not committables:
            return []
        with transient("giving up branches", sink=self.sink.name):
            return self._epoch_commit.give_up(committables)

    @property
    def _epoch_commit(self) -> EpochCommit:
        return EpochCommit(
            self.client,
            self.database[self.sink.collection],
            self.outbox,
            self.markers,
            is_append=self.sink.merge is None,
            is_transactional=self.transactional,
            timeout_s=self.sink.timeout_s,
        )

    # Undecided branches ----------------------------------------------------------------------------------------

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove the outbox documents of these branches."""
        with transient("emptying the MongoDB outbox", sink=self.sink.name):
            self.outbox.delete_branches([branch.resource for branch in branches])

    def in_doubt(self) -> list[InDoubt]:
        """The branches in the outbox, without those that a marker settles: these are applied, and removed here.

        Documents with other names are ignored.
        """
        with transient("listing the MongoDB outbox", sink=self.sink.name):
            handles = sorted(_parsed(self.outbox.branches(self.pipeline.name_prefix)))
            markers = self.markers.read_all(self.pipeline.name_prefix) if handles else {}
            settled = [handle for handle in handles if _settled(markers, handle)]
            self.outbox.delete_branches([str(handle) for handle in settled])
        return [_in_doubt(handle) for handle in handles if handle not in settled]

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The branches of every pipeline in the outbox, without those that a marker settles; nothing is removed.

        Leaves out other names too, and branches whose owner entry cannot be read.
        """
        with transient("listing the MongoDB outbox", sink=self.sink.name):
            handles = sorted(_parsed(self.outbox.branches(ANY_PIPELINE)))
            markers = self.markers.read_all(ANY_PIPELINE) if handles else {}
            owners = self.owners.read_all() if handles else {}
        with_owners = []
        for handle in handles:
            if not _settled(markers, handle):
                with suppress(CorruptionError):
                    with_owners.append((_in_doubt(handle), owner_of(owners.get(marker_id_of(handle)))))
        return with_owners

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The marker document of this sink and incarnation; it names the branches of the newest epoch."""
        with transient("reading the MongoDB marker", sink=self.sink.name):
            marker = self.markers.read(self.pipeline, self.sink.name)
        if marker is None or marker.epoch == NO_EPOCH:
            return None
        return Marker(marker.epoch, max(map(Handle.parse, marker.handles)))

    def owner(self) -> Owner | None:
        """The document of this sink and incarnation in `tpc_owners`."""
        with transient("reading the MongoDB owner entry", sink=self.sink.name):
            return self.owners.read(self.pipeline, self.sink.name)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Compare and set that document; the first write creates the collection."""
        with transient("writing the MongoDB owner entry", sink=self.sink.name):
            return self.owners.replace(self.pipeline, self.sink.name, owner, before)


def _in_doubt(handle: Handle) -> InDoubt:
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)


def _parsed(names: Iterable[str]) -> Iterator[Handle]:
    """Those of `names` that are names of branches."""
    for name in names:
        with suppress(CorruptionError):
            yield Handle.parse(name)


def _settled(markers: Mapping[str, EpochMarker], handle: Handle) -> bool:
    marker = markers.get(marker_id_of(handle))
    return marker is not None and marker.settles(handle)
