"""Base classes for a sink on a system that does several things in one act: a script, a transaction, a batch.

An author writes a `Store`: short methods of which four must be one act of the system each (`stage`, `publish`,
`withdraw`, `swap`). Everything else that the contract asks for is here: the writer that counts its rows, verdicts and
their evidence, listings by handle, the owner entry, pruned markers, deadlines turned into errors of `tpc.errors`.

What the system holds for a sink:

- the rows of each branch, staged under the branch's name, which is its handle;
- a marker for each committed branch, under the key of its pipeline and sink, put by the act that shows the rows;
- a few named texts: the owner entry, the identity of the system, and for each key the text that is drawn before its
  first epoch. As long as that text is there, no marker was forgotten.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from tpc.errors import CorruptionError, DataError, TpcError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    GivenUp,
    InDoubt,
    Marker,
    Outcome,
    Owner,
    Sink,
    Verdict,
    Writer,
)
from tpc.sinks.shared import owner_entry
from tpc.sinks.shared.arrow_json import check_json_names, check_json_type, json_objects
from tpc.sinks.shared.exact import REFUSALS, refused_value

if TYPE_CHECKING:
    import pyarrow

IDENTITY = "identity"
NO_EPOCH = -1
"""Stands for the newest epoch where none is committed."""
SWAP_ATTEMPTS = 5


class Published(str, Enum):
    """What `Store.publish` found."""

    NOW = "now"
    """All rows were staged; they are visible now, with their marker."""
    ALREADY = "already"
    """The branch's marker is there; nothing was done."""
    MISSING = "missing"
    """Neither its marker nor a row of it is there; nothing was done."""
    IN_PART = "in part"
    """Fewer or more rows are staged than the branch has; nothing was done."""
    REFUSED = "refused"
    """The target cannot take rows any more (it has another type, say); nothing was done."""


class Store:
    """A connection to the system, for one sink. An author derives from it.

    Every method ends within the sink's `timeout_s` and raises what the system's client raises: `AtomicSink.errors` says
    what that means. Nothing is repeated by the client itself, unless it has the same effect twice.
    """

    @abstractmethod
    def stage(self, branch: str, place: int, rows: Sequence[bytes]) -> int:
        """Add rows to a branch, durably and invisibly, if `place` of its rows are there; how many are there then.

        With the wrong number it adds nothing: so a piece that is sent again is not there twice.
        """

    @abstractmethod
    def held(self, branch: str) -> int:
        """How many rows of a branch are staged."""

    @abstractmethod
    def staged(self) -> Iterator[str]:
        """The names of all branches of which rows are staged, of any pipeline, whole: page by page to the last one.

        Other names may be among them; they are passed over.
        """

    @abstractmethod
    def drop(self, branch: str) -> None:
        """Remove what is staged of a branch; no error if nothing is."""

    @abstractmethod
    def publish(self, branch: str, rows: int, key: str) -> Published:
        """In ONE act: show the rows of a branch, put its marker under `key`, and remove what staged it.

        Only if its marker is not there and exactly `rows` rows are staged. Raises what `AtomicSink.errors` maps to
        `DataError` where the system will never take them: unless its marker is there by then, the epoch is
        parked until an operator decides.
        """

    @abstractmethod
    def withdraw(self, branch: str, key: str) -> bool:
        """In ONE act: remove what is staged of a branch; whether its marker is there."""

    @abstractmethod
    def markers(self, key: str) -> Iterator[str]:
        """The names of all branches that have a marker under `key`."""

    @abstractmethod
    def unmark(self, key: str, branches: Sequence[str]) -> None:
        """Remove the markers of these branches."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """The text of this name, or None."""

    @abstractmethod
    def swap(self, name: str, before: str | None, after: str) -> bool:
        """In ONE act: put `after` in the place of `before` (None: nothing), durably. False if another text is there."""

    def is_open(self) -> bool:
        """Whether a connection that was used before can be used again; asked before each use, so without a round trip.

        By default it is assumed, and the first call after the server has closed it fails. For clients that do not
        reconnect by themselves: look whether the socket has become readable. One that waits for no answer does so when
        it is closed, or when the server sends something unasked, and then a new connection does no harm.
        """
        return True

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class AtomicSink(Sink):
    """A sink whose author writes `connect` and a `Store`, and perhaps `encode` and `require`."""

    errors: ClassVar[Mapping[type[Exception], type[TpcError]]] = {}
    """What the client's errors mean; the first class that fits counts.

    `TransientError` for what may succeed later, `ConfigurationError` for what a user must change, `DataError` for rows
    that the system will never take. No error whose text may contain a password.
    """
    piece_rows: ClassVar[int] = 2_000
    piece_bytes: ClassVar[int] = 4 << 20
    """The most that one `Store.stage` is given, unless a single row is larger."""

    def __init__(self, name: str, *, timeout_s: float = 10.0) -> None:
        super().__init__(name)
        self.timeout_s = timeout_s

    @abstractmethod
    def connect(self) -> Store:
        """A store with a connection of its own; called when one is needed, and again after an error."""

    def require(self, store: Store, context: CheckContext) -> None:
        """Raise `ConfigurationError` for settings of the server, or a target, with which rows would be lost or refused.

        By default nothing is looked at. Called by `check`, after the columns.
        """

    def encode(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        """The bytes of each row; by default JSON, as Spark's `to_json` writes it. Raises `ValueError` for a row.

        Whoever writes another one writes `require_columns`, too.
        """
        return [text.encode() for text in json_objects(batch).to_pylist()]

    def require_columns(self, schema: pyarrow.Schema) -> None:
        """Raise `ConfigurationError` if `encode` has no form for a column."""
        check_json_names(schema.names, "the rows")
        for field in schema:
            check_json_type(field.type, field.name)

    def key(self, pipeline: PipelineId, sink: str = "") -> str:
        """Under what markers and texts of a pipeline's sink are kept."""
        return f"{pipeline.prefix}{sink or self.name}"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """The writer of one branch."""
        return AtomicWriter(self, handle, hint)

    def committer(self, pipeline: PipelineId) -> Committer:
        """The committer of one pipeline."""
        return AtomicCommitter(self, pipeline)


class Connection:
    """A store that is connected when it is needed, and again after an error."""

    def __init__(self, sink: AtomicSink) -> None:
        self.sink = sink
        self._store: Store | None = None

    @contextmanager
    def asking(self, doing: str) -> Iterator[Store]:
        """The store; what its client raises becomes an error of `tpc.errors` that says what was done."""
        with self._told_as(doing):
            if self._store is not None and not self._store.is_open():
                self._drop()
            if self._store is None:
                self._store = self.sink.connect()
            yield self._store

    @contextmanager
    def _told_as(self, doing: str) -> Iterator[None]:
        try:
            yield
        except TpcError:
            raise
        except Exception as error:
            self._drop()  # its state is not known: a late reply would be taken for that of the next call
            kind = next((kind for cause, kind in self.sink.errors.items() if isinstance(error, cause)), None)
            if kind is None:
                raise
            raise kind(f"{doing} failed: {type(error).__name__}: {error}", sink=self.sink.name) from None

    def close(self) -> None:
        """Close the store, if there is one; it is connected again when it is needed."""
        if self._store is not None:
            with self._told_as("closing the connection"):
                store, self._store = self._store, None
                store.close()

    def _drop(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            try:
                store.close()
            except tuple(self.sink.errors):
                return  # it is what failed


class AtomicWriter(Writer):
    """Stages the rows of one branch under its handle, piece by piece, and counts them."""

    def __init__(self, sink: AtomicSink, handle: Handle, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.hint = hint
        self.rows = 0
        self.size_bytes = 0
        self._connection = Connection(sink)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Stage the rows. Raises `DataError` for the first one that has no exact form."""
        if not batch.num_rows:
            return
        try:
            rows = self.sink.encode(batch)
        except REFUSALS as error:
            raise refused_value(batch, self.sink.encode, error, handle=self.handle) from error
        for piece in self._pieces(rows):
            with self._connection.asking(f"staging branch {self.handle}") as store:
                held = store.stage(str(self.handle), self.rows, piece)
            self._require_held(held, self.rows + len(piece))
            self.rows += len(piece)
            self.size_bytes += sum(map(len, piece))

    def _pieces(self, rows: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        start = size = 0
        for place, row in enumerate(rows):
            if place > start and (place - start == self.sink.piece_rows or size + len(row) > self.sink.piece_bytes):
                yield rows[start:place]
                start, size = place, 0
            size += len(row)
        yield rows[start:]

    def prepare(self) -> Committable | None:
        """All rows are staged already; count them once more."""
        try:
            if not self.rows:
                return None
            with self._connection.asking(f"preparing branch {self.handle}") as store:
                held = store.held(str(self.handle))
            self._require_held(held, self.rows)
        finally:
            self._connection.close()
        return Committable(self.handle, str(self.handle), self.rows, self.size_bytes, dict(self.hint))

    def _require_held(self, held: int, wanted: int) -> None:
        if held != wanted:
            what = f"branch {self.handle} has {held} staged rows where {wanted} are due: a part of it was taken away"
            raise TransientError(what, sink=self.sink.name)

    def abort(self) -> None:
        """Remove what is staged."""
        try:
            with self._connection.asking(f"aborting branch {self.handle}") as store:
                store.drop(str(self.handle))
        finally:
            self._connection.close()


class AtomicCommitter(Committer):
    """Commits, aborts and lists the branches of one sink of one pipeline."""

    def __init__(self, sink: AtomicSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline
        self.key = sink.key(pipeline)
        self._connection = Connection(sink)

    def check(self, context: CheckContext) -> None:
        """The columns, then whatever the sink's author requires."""
        self.sink.require_columns(context.schema)
        with self._connection.asking("checking the target") as store:
            self.sink.require(store, context)

    def identity(self) -> str:
        """A text that is drawn once and that the system keeps."""
        with self._connection.asking("reading the identity") as store:
            return f"{self.sink.kind}:{self._drawn(store, IDENTITY)}"

    def hint(self) -> JSONObject:
        """The newest epoch before this one; before the first epoch, the text that shows that none was forgotten."""
        with self._connection.asking("reading markers") as store:
            newest = self._newest_epoch(store)
            return {"after": newest, **({"base": self._drawn(store, self._base)} if newest == NO_EPOCH else {})}

    @property
    def _base(self) -> str:
        return f"base:{self.key}"

    def _drawn(self, store: Store, name: str) -> str:
        store.swap(name, None, uuid.uuid4().hex)
        return store.read(name) or ""

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Publish each branch; what the system does not answer is UNKNOWN."""
        return [self._outcome(committable) for committable in committables]

    def _outcome(self, branch: Committable) -> Outcome:
        try:
            with self._connection.asking(f"committing branch {branch.resource}") as store:
                found = store.publish(branch.resource, branch.rows, self.key)
        except DataError as error:
            return self._outcome_of_refusal(branch, error)
        except TpcError as error:
            return Outcome(Verdict.UNKNOWN, error.what)
        if found is Published.NOW:
            return Outcome(Verdict.COMMITTED, f"{branch.rows} rows published")
        if found is Published.ALREADY:
            return Outcome(Verdict.ALREADY, "its marker is there")
        if found is Published.MISSING:
            return self._outcome_of_missing(branch)
        what = {
            Published.IN_PART: f"not exactly {branch.rows} rows are staged",
            Published.REFUSED: "the target takes no rows any more",
        }[found]
        return Outcome(Verdict.UNKNOWN, what, contradiction=True)

    def _outcome_of_refusal(self, branch: Committable, error: DataError) -> Outcome:
        """REFUSED, unless another coordinator has published it meanwhile: its marker may be what the system refused."""
        try:
            with self._connection.asking(f"reading markers after branch {branch.resource} was refused") as store:
                is_there = branch.resource in store.markers(self.key)
        except TpcError as unanswered:
            return Outcome(Verdict.UNKNOWN, f"{error.what}; {unanswered.what}")
        return Outcome(Verdict.ALREADY, "its marker is there") if is_there else Outcome(Verdict.REFUSED, error.what)

    def _outcome_of_missing(self, branch: Committable) -> Outcome:
        """LOST only if what stood there when the epoch began is still there: else markers may be missing, too."""
        after = branch.data["after"]
        try:
            with self._connection.asking(f"reading markers without branch {branch.resource}") as store:
                epochs = {handle.epoch for handle in self._own(store)}
                has_base = after == NO_EPOCH and store.read(self._base) == branch.data["base"]
        except TpcError as error:
            return Outcome(Verdict.UNKNOWN, error.what)
        newest = max(epochs, default=NO_EPOCH)
        shows_what_was = has_base or after in epochs
        if newest in (after, branch.handle.epoch) and shows_what_was:
            return Outcome(Verdict.LOST, f"neither staged nor marked, and the newest epoch is still {newest}")
        what = f"neither staged nor marked, and the newest epoch is {newest}, after {after}: another history"
        return Outcome(Verdict.UNKNOWN, what, contradiction=True)

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove what is staged."""
        for branch in branches:
            with self._connection.asking(f"aborting branch {branch.resource}") as store:
                store.drop(branch.resource)

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Remove what is staged, and tell what is published, in one act: a commit comes before it or is too late."""
        return [self._given_up(committable) for committable in committables]

    def _given_up(self, branch: Committable) -> GivenUp:
        with self._connection.asking(f"giving up branch {branch.resource}") as store:
            if store.withdraw(branch.resource, self.key):
                return GivenUp.COMMITTED
            newest = self._newest_epoch(store)
        # Markers older than the newest epoch are pruned: without one nothing is known of such a branch.
        return GivenUp.NOT_KNOWN if newest > branch.handle.epoch else GivenUp.UNDONE

    def in_doubt(self) -> list[InDoubt]:
        """The staged branches of this sink under any incarnation of the pipeline's name."""
        ours = (self.pipeline.name, self.sink.name)
        return [_in_doubt(handle) for handle in self._staged() if (handle.pipeline.name, handle.sink) == ours]

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """Every staged branch, with the owner entry of its sink and pipeline."""
        with self._connection.asking("reading owner entries") as store:
            return [(_in_doubt(each), self._owner(store, each.pipeline, each.sink)) for each in self._staged()]

    def _staged(self) -> list[Handle]:
        with self._connection.asking("listing branches") as store:
            return [handle for name in store.staged() for handle in _handles(name)]

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """Of the newest epoch, a branch of the highest generation."""
        with self._connection.asking("reading markers") as store:
            own = self._own(store)
        newest = max(own, key=lambda handle: (handle.epoch, handle.generation), default=None)
        return Marker(newest.epoch, newest) if newest else None

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """The newest marker. Raises `TransientError` if a branch is no longer staged."""
        gone = {branch.resource for branch in committables} - ({str(handle) for handle in self._staged()})
        if gone:
            raise TransientError(f"{len(gone)} branches are not staged, one is {min(gone)}", sink=self.sink.name)
        return self.newest_marker(since_generation)

    def _own(self, store: Store) -> list[Handle]:
        return [handle for name in store.markers(self.key) for handle in _handles(name)]

    def _newest_epoch(self, store: Store) -> int:
        return max((handle.epoch for handle in self._own(store)), default=NO_EPOCH)

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Remove the markers of epochs before `epoch`; those of the newest epoch always stay."""
        if not committables:
            return
        with self._connection.asking("pruning markers") as store:
            own = self._own(store)
            newest = max((handle.epoch for handle in own), default=NO_EPOCH)
            if old := [str(handle) for handle in own if handle.epoch < min(epoch, newest)]:
                store.unmark(self.key, old)

    def owner(self) -> Owner | None:
        """The entry of this pipeline and sink."""
        with self._connection.asking("reading the owner entry") as store:
            return self._owner(store, self.pipeline, self.sink.name)

    def _owner(self, store: Store, pipeline: PipelineId, sink: str) -> Owner | None:
        name = f"owner:{self.sink.key(pipeline, sink)}"
        text = store.read(name)
        return None if text is None else owner_entry.from_text(text, name)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Swap the entry, if the one that is there is of the term of `before`, or of `owner` already."""
        name = f"owner:{self.key}"
        with self._connection.asking("taking ownership") as store:
            for _ in range(SWAP_ATTEMPTS):
                text = store.read(name)
                found = None if text is None else owner_entry.from_text(text, name)
                if not any(owner_entry.is_same_term(found, known) for known in (before, owner)):
                    return False
                if store.swap(name, text, owner_entry.to_text(owner)):
                    return True
        raise TransientError(f"the owner entry was replaced {SWAP_ATTEMPTS} times meanwhile", sink=self.sink.name)

    def close(self) -> None:
        """Close the connection; it is made again when it is needed."""
        self._connection.close()


def _handles(name: str) -> list[Handle]:
    """The handle that a name is; none for names of others."""
    try:
        return [Handle.parse(name)]
    except CorruptionError:
        return []


def _in_doubt(handle: Handle) -> InDoubt:
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)
