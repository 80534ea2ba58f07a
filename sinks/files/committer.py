"""The driver's half of the file sink: which files are there, and what happens to them.

How a decided epoch is published is in `publish`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner
from tpc.sinks.authoring.owner_directory import OwnerDirectory
from tpc.sinks.files.formats import check_schema
from tpc.sinks.files.layout import (
    EXTENSIONS,
    NO_EPOCH,
    Layout,
    handle_of,
    newest_epoch,
    newest_manifest,
    whose_and_epoch,
)
from tpc.sinks.files.manifest import FileManifest, newest_publishing, read_manifest
from tpc.sinks.files.publish import SHARE_IT, give_up_epoch, publish_epoch, refuse_without_rights
from tpc.sinks.shared.owner_entry import ANY_PIPELINE
from tpc.support.deadlines import within
from tpc.support.durable_files import in_words, make_directories, remove, sync
from tpc.urls import without_user

if TYPE_CHECKING:
    from tpc.sinks.files.sink import FileSink

Result = TypeVar("Result")


class FileCommitter(Committer):
    """Commits, aborts and lists the branches of one pipeline in one directory."""

    def __init__(self, sink: FileSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline
        self.layout = Layout(Path(sink.path))

    # Before an epoch -------------------------------------------------------------------------------------------

    def check(self, context: CheckContext) -> None:
        """Refuse remote paths, columns without a form in the format, and directories that cannot do what it takes."""
        self._refuse_remote()
        try:
            check_schema(self.sink.format, context.schema)
            within(self.sink.timeout_s, self._try_out, waiting_for="the file system")
        except ConfigurationError as error:
            error.sink = self.sink.name
            raise
        except OSError as error:
            raise ConfigurationError(
                f"{self.layout.root} cannot be written as it must: {in_words(error)}",
                sink=self.sink.name,
                remedy="give a directory on one POSIX file system that this user may write, with hard links.",
            ) from error

    def _refuse_remote(self) -> None:
        if "://" in self.sink.path:
            raise ConfigurationError(
                f"{without_user(self.sink.path)} is not on a local file system",
                sink=self.sink.name,
                remedy="give a directory that driver and executors mount under one path; object stores and HDFS "
                "are not supported.",
            )

    def _try_out(self) -> None:
        """Make the directories, and do once what a commit does: write, rename, link, fsync."""
        self._refuse_without_rights()
        make_directories(self.layout.staging)
        make_directories(self.layout.manifests)
        devices = {path: path.stat().st_dev for path in (self.layout.root, self.layout.staging, self.layout.manifests)}
        if len(set(devices.values())) > 1:
            raise ConfigurationError(
                f"{self.layout.root} and the directories under it are on different file systems",
                remedy="mount them as one: a rename between them is not atomic.",
            )
        name = f"tpc-check-{uuid.uuid4().hex}"
        staged, target, linked = self.layout.staging / name, self.layout.root / f"_{name}", self.layout.manifests / name
        try:
            staged.write_bytes(b"check")
            sync(staged)
            staged.rename(target)
            os.link(target, linked)
            sync(self.layout.root)
        finally:
            for path in (staged, target, linked):
                remove(path)
        self.layout.known_as()

    def missing(self) -> str | None:
        """The directory, or all that this sink has made in it."""
        self._refuse_remote()
        with self._failing_as("looking whether it is there"):
            return within(self.sink.timeout_s, self.layout.missing, waiting_for="the file system")

    def identity(self) -> str:
        """The uuid in the directory's identity file; made by the first who asks."""
        return f"files:{self._ask('asking who it is', self.layout.known_as)}"

    def hint(self) -> JSONObject:
        """The newest published epoch, before the first the base: the evidence for a lost branch."""
        return self._ask("reading the newest manifest", self._evidence)

    def _evidence(self) -> JSONObject:
        newest = newest_epoch(self._manifests)
        if newest != NO_EPOCH or not self.layout.identity.exists():  # nothing is made where a mount is away
            return {"after": newest}
        return {"after": newest, "base": self.layout.make_base(self.pipeline, self.sink.name)}

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Every staged file must be there for the driver too, as long as it was prepared: it is the one who renames.

        Raises `ConfigurationError` for a directory that executors do not share with the driver.
        """
        newest, shown, wrong = self._ask("looking at staged files", lambda: self._last_look(committables))
        if wrong and not _has_gone_back(newest, committables):
            raise ConfigurationError(
                f"{len(wrong)} of {len(committables)} files that tasks have prepared are not what the driver sees, the "
                f"first: {wrong[0]}",
                sink=self.sink.name,
                remedy="give a directory that driver and executors mount under this one path.",
            )
        return _marker(shown)

    def _last_look(self, committables: Sequence[Committable]) -> tuple[int, FileManifest | None, list[str]]:
        """The newest manifest's epoch, the newest one that publishes anything, and what is wrong with staged files."""
        return newest_epoch(self._manifests), self._newest(), list(self._not_as_prepared(committables))

    def _not_as_prepared(self, committables: Sequence[Committable]) -> Iterator[str]:
        for committable in committables:
            staged = self.layout.staging / str(committable.data["file"])
            try:
                size_bytes = staged.stat().st_size
            except FileNotFoundError:
                yield f"{staged} is not there"
            else:
                if size_bytes != committable.size_bytes:
                    yield f"{staged} has {size_bytes} bytes, {committable.size_bytes} were prepared"

    # A decided epoch -------------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Publish decided branches, epoch by epoch in order. Takes all branches of an epoch that are not settled."""
        outcomes: dict[Handle, Outcome] = {}
        for epoch in sorted({committable.handle.epoch for committable in committables}):
            branches = [committable for committable in committables if committable.handle.epoch == epoch]
            outcomes.update(publish_epoch(self.layout, branches, self.sink.timeout_s))
        return [outcomes[committable.handle] for committable in committables]

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Put a manifest of no files in the place of the epoch's, if that is not there, and remove the files."""
        if not committables:
            return []
        return self._ask("giving up an epoch", lambda: give_up_epoch(self.layout, committables))

    # What nobody decided ---------------------------------------------------------------------------------------

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove the branches' files, except those that a manifest names."""
        self._ask("removing files", lambda: self._remove(branches))

    def _remove(self, branches: Sequence[InDoubt | Committable]) -> None:
        published = Published(self.layout)
        for branch in branches:
            handle = Handle.parse(branch.resource)
            for extension in EXTENSIONS.values():
                remove(self.layout.staging / f"{handle}{extension}")
                if not published.settles(handle):
                    remove(self.layout.root / f"{handle}{extension}")

    def in_doubt(self) -> list[InDoubt]:
        """The files of this pipeline's name that are staged, or renamed and not in a manifest."""
        return self._list(lambda listing: undecided(self.layout, self.pipeline.name_prefix, listing))

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The same for every pipeline that writes here.

        Left out: what is no branch's file, and branches whose manifest or owner entry cannot be read.
        """
        return self._list(lambda listing: undecided_of_all(self.layout, listing))

    def _list(self, look: Callable[[Listing], Result]) -> Result:
        listing = Listing()
        try:
            return self._ask("listing", lambda: look(listing))
        except TransientError as error:
            cause = error.__cause__
            if not (listing.names_seen and isinstance(cause, TimeoutError) and cause.errno is None):
                raise  # a time-out with a number is the file system's own
            took = f"listing {self.layout.root} took longer than {self.sink.timeout_s:g} s"
            what = f"{took}: {listing.names_seen} names had come until then"
            raise TransientError(what, sink=self.sink.name, remedy=MANY_FILES) from error

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest manifest of this sink and incarnation. Raises `CorruptionError` when it is damaged."""
        return _marker(self._ask("reading the newest manifest", self._newest))

    def _newest(self) -> FileManifest | None:
        return newest_publishing(self._manifests, self.layout.root)

    @property
    def _manifests(self) -> Path:
        return self.layout.manifests_of(self.pipeline, self.sink.name)

    def owner(self) -> Owner | None:
        """The newest file in this sink's owner directory. Raises `CorruptionError` when it is damaged."""
        return self._ask("reading the owner entry", self._owners.read)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Put the next file if it is absent; makes the directory. Raises as `owner`, and where rights are missing."""
        self._refuse_remote()
        self._ask("looking at rights", self._refuse_without_rights)  # what is decided is finished after this
        return self._ask("writing the owner entry", lambda: self._owners.replace(owner, before))

    def _refuse_without_rights(self) -> None:
        refuse_without_rights(self.layout, self.pipeline, self.sink.name)

    @property
    def _owners(self) -> OwnerDirectory:
        return OwnerDirectory(self.layout.owners_of(self.pipeline, self.sink.name))

    def _ask(self, doing: str, call: Callable[[], Result]) -> Result:
        def answer() -> Result:
            # A mount that failed and left something else in its place must not look like a target without history.
            with suppress(FileNotFoundError), os.scandir(self.layout.root):
                pass
            return call()

        with self._failing_as(doing):
            return within(self.sink.timeout_s, answer, waiting_for="the file system")

    @contextmanager
    def _failing_as(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = SHARE_IT if isinstance(error, PermissionError) else None
            what = f"{doing} in {self.layout.root} failed: {in_words(error)}"
            raise TransientError(what, sink=self.sink.name, remedy=remedy) from error


def _marker(manifest: FileManifest | None) -> Marker | None:
    return None if manifest is None else Marker(manifest.epoch, max(file.handle for file in manifest.files))


def _has_gone_back(newest: int, begun: Sequence[Committable]) -> bool:
    """Whether the newest manifest is an older one than when the branches were begun: what has vanished went with more.

    Of manifests that publish nothing, too: a branch's hint counts them.
    """
    before = max((one.data["after"] for one in begun if one.data.get("after") is not None), default=NO_EPOCH)
    return newest < before


# Which files nobody has decided on, as far as this directory shows.
#
# A file is in doubt while it is staged, or while it lies among the committed ones above the newest manifest: files get
# there only by a decision, and epochs are published one after the other, so that what lies below the newest manifest is
# settled. Every name is listed, for nothing else shows where a commit was interrupted; that a file is settled, as
# nearly all are, is told by the epoch in its name. Functions raise `OSError`, and `CorruptionError` for a damaged
# manifest.

MANY_FILES = (
    "if the directory holds so many files or more, give its FileSink a longer timeout_s and start again; if not, its "
    "file system is slow or gone."
)


class Listing:
    """Lists directories; how far it has come can be seen from other threads."""

    def __init__(self) -> None:
        self.names_seen = 0

    def names(self, directory: Path, prefix: str) -> list[str]:
        """The names in a directory that begin with `prefix`; none if it is not there."""
        found: list[str] = []
        if directory.is_dir():
            with os.scandir(directory) as entries:
                for entry in entries:
                    self.names_seen += 1
                    if entry.name.startswith(prefix):
                        found.append(entry.name)
        return found


def undecided(layout: Layout, prefix: str, listing: Listing) -> list[InDoubt]:
    """The branches whose names begin with `prefix` and that have a file staged, or renamed and not in a manifest."""
    published = Published(layout)
    handles = _staged(layout, prefix, listing)
    handles += [one for name in listing.names(layout.root, prefix) if (one := published.unsettled(name)) is not None]
    return [_in_doubt(handle) for handle in sorted(handles)]


def undecided_of_all(layout: Layout, listing: Listing) -> list[tuple[InDoubt, Owner | None]]:
    """The same of every pipeline, each with its owner, but for branches whose manifest or owner cannot be read."""
    published, handles = Published(layout), set(_staged(layout, ANY_PIPELINE, listing))
    for name in listing.names(layout.root, ANY_PIPELINE):
        with suppress(CorruptionError):
            if (handle := published.unsettled(name)) is not None:
                handles.add(handle)
    with_owners = []
    for handle in sorted(handles):
        with suppress(CorruptionError):
            owner = OwnerDirectory(layout.owners_of(handle.pipeline, handle.sink)).read()
            with_owners.append((_in_doubt(handle), owner))
    return with_owners


def _staged(layout: Layout, prefix: str, listing: Listing) -> list[Handle]:
    return [handle for name in listing.names(layout.staging, prefix) if (handle := handle_of(name)) is not None]


def _in_doubt(handle: Handle) -> InDoubt:
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)


class Published:
    """The newest manifest of every sink and incarnation that is asked for, each read once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._newest: dict[tuple[PipelineId, str], FileManifest | None] = {}
        self._epochs: dict[tuple[str, ...], int] = {}
        """Of these manifests, by whose they are in the words of `whose_and_epoch`."""

    def unsettled(self, name: str) -> Handle | None:
        """The branch of a renamed file that does not count; None also for a name that no branch has."""
        if self._is_below(name):
            return None
        handle = handle_of(name)
        return None if handle is None or self.settles(handle) else handle

    def _is_below(self, name: str) -> bool:
        """Whether a name need not be parsed, which takes far longer: it is of an epoch that is settled, or no branch's.

        False as long as `settles` has not read the newest manifest of its sink and incarnation.
        """
        whose, epoch = whose_and_epoch(name)
        return epoch < self._epochs.get(whose, epoch)

    def settles(self, handle: Handle) -> bool:
        """Whether a renamed file counts: its epoch lies below the newest manifest, or that one names it."""
        key = (handle.pipeline, handle.sink)
        if key not in self._newest:
            path = newest_manifest(self.layout.manifests_of(*key))
            newest = self._newest[key] = None if path is None else read_manifest(path, self.layout.root)
            if newest is not None:
                self._epochs[handle.pipeline.name, str(handle.pipeline.incarnation), handle.sink] = newest.epoch
        newest = self._newest[key]
        if newest is None:
            return False
        return handle.epoch < newest.epoch or any(file.handle == handle for file in newest.files)
