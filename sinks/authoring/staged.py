"""Base classes for a sink whose branches are staged as files beside its target, a directory.

The author of the sink adds how a file is written (`StagedWriter.begin`, `add`, `end`), and of the contract in
`tpc.sink` the sink's `writer` and `committer`, and the committer's `check`, `identity` and `newest_marker`. In the
place of `commit` and `give_up` stand `publish` and `withdraw`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpc.errors import TpcError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committable, Committer, ExecutorNeeds, GivenUp, InDoubt, Outcome, Owner, Sink, Verdict, Writer
from tpc.sinks.authoring.owner_directory import OwnerDirectory
from tpc.sinks.authoring.staging_directory import OWN, StagingDirectory
from tpc.support.durable_files import in_words

if TYPE_CHECKING:
    import pyarrow

Result = TypeVar("Result")
ATTEMPTS = 20
"""How often one call begins again because another process was faster; then it gives up, so that it has an end."""


class StagedSink(Sink):
    """A sink on the directory `path`, which all processes of the pipeline share. It is never created here."""

    failures: tuple[type[Exception], ...] = ()
    """What the system's client raises if a retry may succeed; no exception whose text may contain a password."""

    def __init__(self, path: str | Path, *, name: str) -> None:
        super().__init__(name)
        self.path = Path(path).absolute()
        self.staging = StagingDirectory(self.path)

    def executor_needs(self) -> ExecutorNeeds:
        """The directory."""
        return ExecutorNeeds(directories=(str(self.path),))

    def owners(self, pipeline: PipelineId, sink: str) -> OwnerDirectory:
        """The owner entries of one sink of one pipeline. Raises `FileNotFoundError` if the target is missing."""
        self.path.stat()
        return OwnerDirectory(self.path / OWN / "owners" / f"{pipeline.prefix}{sink}")

    @contextmanager
    def asking(self, doing: str) -> Iterator[None]:
        """Turn what the file system and the client raise into a `TransientError` that says what was done and where."""
        try:
            yield
        except OSError as error:
            raise TransientError(f"{doing} {self.path} failed: {in_words(error)}", sink=self.name) from error
        except self.failures as error:
            said = f"{type(error).__name__}: {error}"
            raise TransientError(f"{doing} {self.path} failed: {said}", sink=self.name) from error


class StagedWriter(Writer):
    """One file for a branch. The committable's `data` is the committer's `hint` from the begin of the epoch."""

    def __init__(self, sink: StagedSink, handle: Handle, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.hint = hint
        self.rows = 0

    @abstractmethod
    def begin(self, path: Path, schema: pyarrow.Schema) -> None:
        """Create the file; called before the first rows."""

    @abstractmethod
    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows. Raises `DataError` for a row that can never be taken."""

    @abstractmethod
    def end(self) -> None:
        """Close the file, so that the file system has all its bytes."""

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Create the file with the first rows, and add them."""
        if not batch.num_rows:
            return
        with self.sink.asking("writing to"):
            if not self.rows:
                self.begin(self.sink.staging.begin(self.handle), batch.schema)
            self.rows += batch.num_rows
            self.add(batch)

    def prepare(self) -> Committable | None:
        """Make the file durable, then prepared."""
        if not self.rows:
            return None
        with self.sink.asking("preparing in"):
            self.end()
            size_bytes = self.sink.staging.finish(self.handle)
        return Committable(self.handle, str(self.handle), self.rows, size_bytes, dict(self.hint))

    def abort(self) -> None:
        """Remove the file, whether complete or not."""
        with self.sink.asking("aborting in"):
            self.sink.staging.remove(self.handle)


class StagedCommitter(Committer):
    """Branches in doubt, aborts and the owner entry, as files; `key` names this sink of this pipeline."""

    overtaken: tuple[type[Exception], ...] = ()
    """What the system's client raises if another process has committed meanwhile; the call begins again."""

    def __init__(self, sink: StagedSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline
        self.key = f"{pipeline.prefix}{sink.name}"

    @abstractmethod
    def publish(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Make decided branches visible together with their marker, once; as `Committer.commit`, but it may raise."""

    @abstractmethod
    def withdraw(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """End branches whose files are removed: a delayed commit must fail from now on. Returns each outcome."""

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Call `publish`, again whenever another process was faster. An outcome that is not known is UNKNOWN."""
        try:
            return self._while_overtaken("committing to", lambda: self.publish(committables))
        except TpcError as error:
            return [Outcome(Verdict.UNKNOWN, error.what) for _ in committables]

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Remove the staged files, then call `withdraw`."""

        def given_up() -> list[GivenUp]:
            for branch in committables:
                self.sink.staging.remove(branch.handle)
            return self.withdraw(committables)

        return self._while_overtaken("giving up in", given_up)

    def _while_overtaken(self, doing: str, call: Callable[[], Result]) -> Result:
        with self.sink.asking(doing):
            for _ in range(ATTEMPTS):
                with suppress(*self.overtaken):
                    return call()
        raise TransientError(
            f"{doing} {self.sink.path}: other processes were faster {ATTEMPTS} times", sink=self.sink.name
        )

    def in_doubt(self) -> list[InDoubt]:
        """Every staged branch of this sink under any incarnation of the pipeline's name."""
        with self.sink.asking("listing what is staged in"):
            return self.sink.staging.in_doubt(self.pipeline, self.sink.name)

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """Every staged branch, with the owner entry of its sink and pipeline."""
        with self.sink.asking("listing what is staged in"):
            return self.sink.staging.all_in_doubt(lambda pipeline, sink: self.sink.owners(pipeline, sink).read())

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove the staged files. A commit must not need a staged file after it has answered."""
        with self.sink.asking("aborting in"):
            for branch in branches:
                self.sink.staging.remove(Handle.parse(branch.resource))

    def owner(self) -> Owner | None:
        """The newest entry. Raises `CorruptionError` if it is damaged."""
        with self.sink.asking("reading the owner entry of"):
            return self.sink.owners(self.pipeline, self.sink.name).read()

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Put the next entry unless there is one."""
        with self.sink.asking("taking ownership of"):
            return self.sink.owners(self.pipeline, self.sink.name).replace(owner, before)
