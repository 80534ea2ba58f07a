"""The committer of the file sink: lists, commits and aborts the files of branches.

`publish` has the publication of a decided epoch.
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
    file_of,
    handle_of,
    newest_epoch,
    newest_manifest,
    whose_and_epoch,
)
from tpc.sinks.files.manifest import FileManifest, newest_publishing, read_manifest
from tpc.sinks.files.publish import NO_ROOM, give_up_epoch, publish_epoch, refuse_without_rights, remedy_for
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
        """Refuse remote paths, columns without a form in the format, and unfit directories."""
        self._refuse_remote()
        try:
            check_schema(self.sink.format, context.schema)
            within(self.sink.timeout_s, self._try_out, waiting_for="the file system")
        except ConfigurationError as error:
            error.sink = self.sink.name
            raise
        except OSError as error:
            if error.errno in NO_ROOM:
                raise TransientError(
                    f"{self.layout.root} has no room for what a commit writes: {in_words(error)}",
                    sink=self.sink.name,
                    remedy=f"{remedy_for(error)}, then start again.",
                ) from error
            raise ConfigurationError(
                f"{self.layout.root} cannot be written as a commit needs: {in_words(error)}",
                sink=self.sink.name,
                remedy="give a directory on one POSIX file system that this user may write, with hard links.",
            ) from error

    def _refuse_remote(self) -> None:
        if "://" in self.sink.path:
            raise ConfigurationError(
                f"{without_user(self.sink.path)} is not on a local file system",
                sink=self.sink.name,
                remedy="give a directory that all machines of the pipeline mount under one path; object stores and "
                "HDFS are not supported.",
            )

    def _try_out(self) -> None:
        """Create the directories, and make the operations of a commit once: write, rename, link, fsync."""
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
        """The directory, or everything that this sink has created in it."""
        self._refuse_remote()
        with self._failing_as("checking that it exists"):
            return within(self.sink.timeout_s, self.layout.missing, waiting_for="the file system")

    def identity(self) -> str:
        """The uuid in the directory's identity file; the first call creates it."""
        return f"files:{self._ask('reading its identity', self.layout.known_as)}"

    def hint(self) -> JSONObject:
        """The newest published epoch, or before the first one the base: the evidence for a lost branch."""
        return self._ask("reading the newest manifest", self._evidence)

    def _evidence(self) -> JSONObject:
        newest = newest_epoch(self._manifests)
        if newest != NO_EPOCH or not self.layout.identity.exists():  # nothing is created while a mount is missing
            return {"after": newest}
        return {"after": newest, "base": self.layout.make_base(self.pipeline, self.sink.name)}

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Check that this process sees every staged file, with the prepared size: it renames the files.

        Raises `ConfigurationError` for a directory that the tasks' machines do not share with this process.
        """
        newest, shown, wrong = self._ask("checking staged files", lambda: self._last_look(committables))
        if wrong and not _has_gone_back(newest, committables):
            raise ConfigurationError(
                f"{len(wrong)} of {len(committables)} files that tasks have prepared are not what the coordinator's "
                f"process sees, the first: {wrong[0]}",
                sink=self.sink.name,
                remedy="give a directory that all machines of the pipeline mount under this one path.",
            )
        return _marker(shown)

    def _last_look(self, committables: Sequence[Committable]) -> tuple[int, FileManifest | None, list[str]]:
        """The newest manifest's epoch, the newest one that publishes anything, and what is wrong with staged files."""
        return newest_epoch(self._manifests), self._newest(), list(self._not_as_prepared(committables))

    def _not_as_prepared(self, committables: Sequence[Committable]) -> Iterator[str]:
        for committable in committables:
            staged = self.layout.staging / file_of(committable)
            try:
                size_bytes = staged.lstat().st_size
            except FileNotFoundError:
                yield f"{staged} is not there"
            else:
                if size_bytes != committable.size_bytes:
                    yield f"{staged} has {size_bytes} bytes, {committable.size_bytes} were prepared"

    # A decided epoch -------------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Publish decided branches, epoch by epoch in order. Expects all branches of an epoch that are not settled."""
        outcomes: dict[Handle, Outcome] = {}
        for epoch in sorted({committable.handle.epoch for committable in committables}):
            branches = [committable for committable in committables if committable.handle.epoch == epoch]
            outcomes.update(publish_epoch(self.layout, branches, self.sink.timeout_s))
        return [outcomes[committable.handle] for committable in committables]

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Put a manifest without files for the epoch, unless it has a manifest, and remove the files."""
        if not committables:
            return []
        return self._ask("giving up an epoch", lambda: give_up_epoch(self.layout, committables))

    # Undecided branches ----------------------------------------------------------------------------------------

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
        """The files under this pipeline's name that are staged, or renamed and not in a manifest."""
        return self._list(lambda listing: undecided(self.layout, self.pipeline.name_prefix, listing))

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The same for every pipeline that writes here.

        Leaves out other files, and branches whose manifest or owner entry cannot be read.
        """
        return self._list(lambda listing: undecided_of_all(self.layout, listing))

    def _list(self, look: Callable[[Listing], Result]) -> Result:
        listing = Listing()
        try:
            return self._ask("listing", lambda: look(listing))
        except TransientError as error:
            cause = error.__cause__
            if not (listing.names_seen and isinstance(cause, TimeoutError) and cause.errno is None):
                raise  # a timeout with an error number comes from the file system itself
            took = f"listing {self.layout.root} took longer than {self.sink.timeout_s:g} s"
            what = f"{took}: {listing.names_seen} names were listed until then"
            raise TransientError(what, sink=self.sink.name, remedy=MANY_FILES) from error

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest manifest of this sink and incarnation. Raises `CorruptionError` if it is damaged."""
        return _marker(self._ask("reading the newest manifest", self._newest))

    def _newest(self) -> FileManifest | None:
        return newest_publishing(self._manifests, self.layout.root)

    @property
    def _manifests(self) -> Path:
        return self.layout.manifests_of(self.pipeline, self.sink.name)

    def owner(self) -> Owner | None:
        """The newest file in this sink's owner directory. Raises `CorruptionError` if it is damaged."""
        return self._ask("reading the owner entry", self._owners.read)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Put the next file if it is absent; creates the directory. Raises as `owner`, and if rights are missing."""
        self._refuse_remote()
        self._ask("checking rights", self._refuse_without_rights)  # here, since a start next finishes the decided epoch
        return self._ask("writing the owner entry", lambda: self._owners.replace(owner, before))

    def _refuse_without_rights(self) -> None:
        refuse_without_rights(self.layout, self.pipeline, self.sink.name)

    @property
    def _owners(self) -> OwnerDirectory:
        return OwnerDirectory(self.layout.owners_of(self.pipeline, self.sink.name))

    def _ask(self, doing: str, call: Callable[[], Result]) -> Result:
        def answer() -> Result:
            # Without this a failed mount, with another directory in its place, would look like a target without epochs.
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
            remedy = remedy_for(error)
            what = f"{doing} in {self.layout.root} failed: {in_words(error)}"
            raise TransientError(what, sink=self.sink.name, remedy=remedy) from error


def _marker(manifest: FileManifest | None) -> Marker | None:
    return None if manifest is None else Marker(manifest.epoch, max(file.handle for file in manifest.files))


def _has_gone_back(newest: int, begun: Sequence[Committable]) -> bool:
    """Whether the newest manifest is older than at the begin of the branches: then more than staged files is lost.

    Manifests that publish nothing count too, since a branch's hint counts them.
    """
    before = max((one.data["after"] for one in begun if one.data.get("after") is not None), default=NO_EPOCH)
    return newest < before


# Which files are in doubt, as far as this directory shows.
#
# A file is in doubt while it is staged, or while it is renamed and its epoch is above the newest manifest. Files are
# renamed only after a decision, and epochs are published one after the other, so every file of an epoch below the
# newest manifest is settled. All names are listed, since nothing else shows where a commit was interrupted. For nearly
# all files the epoch in the name shows that they are settled. Functions raise `OSError`, and `CorruptionError` for a
# damaged manifest.

MANY_FILES = (
    "if the directory holds that many files or more, give its FileSink a longer timeout_s and start again; if not, "
    "check its file system, which is slow or gone."
)


class Listing:
    """Lists directories; other threads can see its progress in `names_seen`."""

    def __init__(self) -> None:
        self.names_seen = 0

    def names(self, directory: Path, prefix: str) -> list[str]:
        """The names in a directory that begin with `prefix`; empty if there is no such directory."""
        found: list[str] = []
        if directory.is_dir():
            with os.scandir(directory) as entries:
                for entry in entries:
                    self.names_seen += 1
                    if entry.name.startswith(prefix):
                        found.append(entry.name)
        return found


def undecided(layout: Layout, prefix: str, listing: Listing) -> list[InDoubt]:
    """The branches with this prefix that have a file staged, or renamed and not in a manifest."""
    published = Published(layout)
    handles = _staged(layout, prefix, listing)
    handles += [one for name in listing.names(layout.root, prefix) if (one := published.unsettled(name)) is not None]
    return [_in_doubt(handle) for handle in sorted(handles)]


def undecided_of_all(layout: Layout, listing: Listing) -> list[tuple[InDoubt, Owner | None]]:
    """The same for every pipeline, each with its owner; leaves out branches whose manifest or owner cannot be read."""
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
    """The newest manifest of each sink and incarnation, read when it is first needed."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._newest: dict[tuple[PipelineId, str], FileManifest | None] = {}
        self._epochs: dict[tuple[str, ...], int] = {}
        """The epochs of these manifests; the key is that of `whose_and_epoch`."""

    def unsettled(self, name: str) -> Handle | None:
        """The branch of a renamed file that is not settled; None for a settled one, and for another name."""
        if self._is_below(name):
            return None
        handle = handle_of(name)
        return None if handle is None or self.settles(handle) else handle

    def _is_below(self, name: str) -> bool:
        """Whether a name is of a settled epoch, or not of a branch. Such a name need not be parsed, which takes longer.

        False until `settles` has read the newest manifest of its sink and incarnation.
        """
        whose, epoch = whose_and_epoch(name)
        return epoch < self._epochs.get(whose, epoch)

    def settles(self, handle: Handle) -> bool:
        """Whether a renamed file is settled: its epoch is below the newest manifest, or that manifest names it."""
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
