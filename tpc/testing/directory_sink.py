"""The reference: a complete sink on a local directory, small enough to be read as a model.

    <root>/identity                      the uuid of this directory
    <root>/writing/<handle>              a branch that is being written, as an Arrow stream
    <root>/prepared/<handle>             a prepared branch: complete and fsynced
    <root>/visible/<handle>              a committed branch: what readers read
    <root>/unique                        if it is there, each key may come once: this sink cannot promise that
    <root>/base/<pipeline>               drawn before the first epoch: as long as it is there, no marker was forgotten
    <root>/owners/<pipeline>/<number>    owner entries; the one with the highest number counts

A rename commits a branch. Its file's name is its marker: it appears with the rows and says which branch it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow

from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.settings import Elsewhere, resolve
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
    Validator,
    Verdict,
    Writer,
)
from tpc.testing.directory_disk import OwnerEntries, ask, handles_of, in_doubt, put_if_absent, rows_of, sync

NO_EPOCH = -1
"""Stands for the newest epoch of a directory that shows none."""

Result = TypeVar("Result")


class DirectorySink(Sink):
    """Branches in `root`. `password` must be that of the directory, if it has one (a file `password`)."""

    kind = "directory"
    writer_class: ClassVar[type[DirectoryWriter]]
    validator_class: ClassVar[type[DirectoryValidator]]
    committer_class: ClassVar[type[DirectoryCommitter]]

    def __init__(self, name: str, root: Path, *, password: str | Elsewhere = "", timeout_s: float = 10.0) -> None:
        super().__init__(name)
        self.root = Path(root)
        self.password = password
        self.timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {str(self.root)!r})"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer; nothing is opened before the first row."""
        return self.writer_class(self, handle, schema, hint)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """A validator; it opens nothing."""
        return self.validator_class(self, handle, schema, hint)

    def committer(self, pipeline: PipelineId) -> Committer:
        """A committer; it keeps nothing open."""
        return self.committer_class(self, pipeline)

    def describe(self) -> dict[str, str]:
        """Where it is."""
        return {"root": str(self.root)}

    def rows(self) -> list[dict[str, Any]]:
        """What readers see."""
        return [row for path in sorted((self.root / "visible").glob("*")) for row in rows_of(path)]

    def forget_markers(self) -> None:
        """The rows stay, and nothing tells whose they are."""
        for path in (self.root / "visible").glob("*"):
            path.rename(path.with_name(f"forgotten-{path.name}"))
        for path in (self.root / "base").glob("*"):
            path.unlink()

    def leftovers(self) -> list[str]:
        """Branches that are neither committed nor aborted."""
        return [path.name for part in ("writing", "prepared") for path in sorted((self.root / part).glob("*"))]


def _require_keys(sink: DirectorySink, batch: pyarrow.RecordBatch) -> None:
    if batch.num_rows and batch.column(0).null_count:
        column = batch.schema.names[0]
        raise DataError(f"column {column} is NULL", sink=sink.name, column=column)


class DirectoryValidator(Validator):
    """Looks at keys, as the writer does."""

    def __init__(self, sink: DirectorySink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
        self.sink, self.handle, self.schema, self.hint = sink, handle, schema, hint

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """Refuse a row without a key."""
        _require_keys(self.sink, batch)


class DirectoryWriter(Writer):
    """Writes `writing/<handle>`; `prepare` makes it durable and renames it to `prepared/<handle>`."""

    def __init__(self, sink: DirectorySink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.schema = schema
        self.hint = hint
        self.rows = 0
        self._stream: Any = None

    def path(self, part: str) -> Path:
        """Where this branch lies in a part of the directory."""
        return self.sink.root / part / str(self.handle)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows; the first column is their key and must not be NULL."""
        _require_keys(self.sink, batch)
        if batch.num_rows:
            self._ask("writing", lambda: self._write(batch))
        self.rows += batch.num_rows

    def _write(self, batch: pyarrow.RecordBatch) -> None:
        self._open()
        self._stream.write_batch(batch)

    def _open(self) -> None:
        if self._stream is None:
            self._stream = pyarrow.ipc.new_stream(str(self.path("writing")), self.schema)

    def prepare(self) -> Committable | None:
        """Durable first, then renamed: what lies in `prepared` is complete."""
        if self._stream is None:
            return None
        try:
            size_bytes = self._ask("preparing", self._prepare)
        except TransientError:
            self.abort()
            raise
        data = {"after": self.hint["after"], "base": self.hint.get("base")}
        return Committable(self.handle, str(self.handle), self.rows, size_bytes, data)

    def _prepare(self) -> int:
        self._stream.close()
        sync(self.path("writing"))
        self.path("writing").rename(self.path("prepared"))
        sync(self.sink.root / "prepared")
        return self.path("prepared").stat().st_size

    def abort(self) -> None:
        """Remove the branch's file, wherever it lies."""
        for part in ("writing", "prepared"):
            self._ask("aborting", lambda part=part: self.path(part).unlink(missing_ok=True))  # type: ignore[misc]  # bound

    def _ask(self, doing: str, call: Callable[[], Result]) -> Result:
        return ask(self.sink.name, f"{doing} branch {self.handle}", call, self.sink.timeout_s)


class DirectoryCommitter(Committer):
    """Commits, aborts and lists the branches of one sink of one pipeline."""

    def __init__(self, sink: DirectorySink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline

    def check(self, context: CheckContext) -> None:
        """Make the directories. Raises `ConfigurationError` for a wrong password."""
        self._ask("making the directories", self._make)
        lock = self.sink.root / "password"
        if lock.exists() and lock.read_text() != resolve(self.sink.password):
            raise ConfigurationError("the password is wrong", sink=self.sink.name, remedy="give that of the directory.")
        if (self.sink.root / "unique").exists():
            remedy = "use a directory in which a key may come again: a branch knows nothing of the others of its epoch."
            raise ConfigurationError("each key may come once", sink=self.sink.name, remedy=remedy)

    def _make(self) -> None:
        for part in ("writing", "prepared", "visible", "owners"):
            (self.sink.root / part).mkdir(parents=True, exist_ok=True)
        put_if_absent(self.sink.root / "identity", str(uuid.uuid4()))
        sync(self.sink.root.parent)

    def identity(self) -> str:
        """The uuid of the directory, which moves with it."""
        return "directory:" + self._ask("asking who it is", (self.sink.root / "identity").read_text)

    def hint(self) -> JSONObject:
        """The newest epoch before this one, or the base before the first: the evidence for a lost branch."""
        after = self._newest_epoch()
        return {"after": after, **({"base": self._ask("making the base", self._made_base)} if after < 0 else {})}

    def _made_base(self) -> str:
        put_if_absent(self._base, uuid.uuid4().hex)
        return self._base.read_text()

    @property
    def _base(self) -> Path:
        return self.sink.root / "base" / f"{self.pipeline.prefix}{self.sink.name}"

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """A rename for each; what the directory does not answer is UNKNOWN."""
        return [self._outcome(committable) for committable in committables]

    def _outcome(self, committable: Committable) -> Outcome:
        try:
            return self._ask("committing", lambda: self._commit(committable))
        except TransientError as error:
            return Outcome(Verdict.UNKNOWN, error.what)

    def _commit(self, committable: Committable) -> Outcome:
        (self.sink.root / "identity").read_text()  # an empty mount point looks as if everything were lost
        visible = self.sink.root / "visible" / committable.resource
        try:
            (self.sink.root / "prepared" / committable.resource).rename(visible)
        except FileNotFoundError:
            return self._outcome_without_file(committable, visible)
        sync(visible.parent)
        return Outcome(Verdict.COMMITTED, "renamed")

    def _outcome_without_file(self, committable: Committable, visible: Path) -> Outcome:
        if visible.exists():
            sync(visible.parent)  # whoever renamed it may not have come so far
            return Outcome(Verdict.ALREADY, "its file is visible")
        newest = self._newest_epoch()
        if newest in (committable.data["after"], committable.handle.epoch) and self._shows_what_was(committable):
            return Outcome(Verdict.LOST, f"neither prepared nor visible, and the newest epoch is still {newest}")
        return Outcome(Verdict.UNKNOWN, f"not there, and epoch {newest} is: another history", contradiction=True)

    def _shows_what_was(self, committable: Committable) -> bool:
        """Whether what stood here when the epoch began is still here: else markers were forgotten since."""
        after = committable.data["after"]
        if after == NO_EPOCH:
            return self._base.exists() and self._base.read_text() == committable.data["base"]
        return any(handle.epoch == after for handle in self._own())

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove what is not committed."""
        for branch in branches:
            for part in ("writing", "prepared"):
                path = self.sink.root / part / branch.resource
                self._ask("aborting", lambda path=path: path.unlink(missing_ok=True))  # type: ignore[misc]  # bound

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Remove what is prepared: a rename and a removal exclude each other. What is visible stays."""
        return [self._ask("giving up", lambda c=c: self._give_up(c)) for c in committables]  # type: ignore[misc]  # bound

    def _give_up(self, committable: Committable) -> GivenUp:
        (self.sink.root / "identity").stat()
        (self.sink.root / "prepared" / committable.resource).unlink(missing_ok=True)
        visible = self.sink.root / "visible" / committable.resource
        return GivenUp.COMMITTED if visible.exists() else GivenUp.UNDONE

    def in_doubt(self) -> list[InDoubt]:
        """The files of this pipeline's name that are not visible."""
        found = self._ask("listing", lambda: list(self.undecided(self.pipeline.name_prefix)))
        return [in_doubt(handle) for handle in found if handle.sink == self.sink.name]

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """Every file that is not visible, with the owner entry of its pipeline."""
        found = self._ask("listing", lambda: list(self.undecided("")))
        return [(in_doubt(handle), self.owner_of(handle.pipeline)) for handle in found]

    def undecided(self, prefix: str) -> Iterator[Handle]:
        """The branches whose name begins so and that are not visible."""
        (self.sink.root / "identity").stat()  # raises when the whole directory is away
        for part in ("writing", "prepared"):
            names = sorted(path.name for path in (self.sink.root / part).glob("*"))
            yield from (handle for name in names if name.startswith(prefix) for handle in handles_of(name))

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The visible file of the greatest epoch, and of the highest generation in it."""
        newest = self._ask("reading markers", self._newest)
        return Marker(newest.epoch, newest) if newest else None

    def _newest(self) -> Handle | None:
        (self.sink.root / "identity").stat()
        return max(self._own(), key=lambda handle: (handle.epoch, handle.generation), default=None)

    def _own(self) -> list[Handle]:
        names = [path.name for path in (self.sink.root / "visible").glob(self.pipeline.prefix + "*")]
        return [handle for name in names for handle in handles_of(name) if handle.sink == self.sink.name]

    def _newest_epoch(self) -> int:
        return marker.epoch if (marker := self.newest_marker()) else NO_EPOCH

    def owner(self) -> Owner | None:
        """The entry that counts for this pipeline."""
        return self.owner_of(self.pipeline)

    def owner_of(self, pipeline: PipelineId) -> Owner | None:
        """The entry that counts for any pipeline."""
        return self._ask("reading the owner", lambda: self._entries(pipeline).read()[0])

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """The entry after `before` is put if nobody has put it: that is the compare and the set."""
        return self._ask("taking ownership", lambda: self._entries(self.pipeline).take(owner, before))

    def _entries(self, pipeline: PipelineId) -> OwnerEntries:
        return OwnerEntries(self.sink.root, f"{pipeline.prefix}{self.sink.name}")

    def _ask(self, doing: str, call: Callable[[], Result]) -> Result:
        return ask(self.sink.name, doing, call, self.sink.timeout_s)


DirectorySink.writer_class = DirectoryWriter
DirectorySink.validator_class = DirectoryValidator
DirectorySink.committer_class = DirectoryCommitter
