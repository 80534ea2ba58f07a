"""Sinks whose `abort` takes too much, or too little well."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tpc.errors import TransientError
from tpc.handles import Handle
from tpc.sink import Committable, InDoubt
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class AbortsByEpoch(DirectorySink):
    """Clears the whole epoch of a branch, the winner's rows too."""

    class Committer(DirectoryCommitter):
        """DELETE WHERE epoch = ..., so to say."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """Every branch of these epochs goes."""
            super().abort(branches)
            for branch in branches:
                gone = Handle.parse(branch.resource)
                for path in (self.sink.root / "visible").glob(f"{gone.pipeline.prefix}*"):
                    handle = Handle.parse(path.name)
                    if (handle.sink, handle.epoch) == (gone.sink, gone.epoch):
                        path.unlink()

    committer_class = Committer


class AbortsPublished(DirectorySink):
    """Takes a committed branch back when it is told to abort it."""

    class Committer(DirectoryCommitter):
        """Everything of that name goes."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """The visible file too."""
            super().abort(branches)
            for branch in branches:
                (self.sink.root / "visible" / branch.resource).unlink(missing_ok=True)

    committer_class = Committer


class AbortRaisesWhenGone(DirectorySink):
    """Takes a branch that is gone for a failure."""

    class Committer(DirectoryCommitter):
        """Recovery then never ends."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """All must be there."""
            there = set(self.sink.leftovers())
            for branch in branches:
                if branch.resource not in there:
                    raise TransientError(f"there is no branch {branch.resource}", sink=self.sink.name)
            super().abort(branches)

    committer_class = Committer


class AbortsBySlot(DirectorySink):
    """Aborts whatever has the number that the branch had: the attempt that came after, perhaps."""

    class Writer(DirectoryWriter):
        """Notes the lowest number that is free, as a table without a key of its own gives row numbers."""

        def prepare(self) -> Committable | None:
            """The number is in the committable."""
            made = super().prepare()
            if made is None:
                return None
            slots = self.sink.root / "slots"
            slots.mkdir(exist_ok=True)
            for number in itertools.count():
                with suppress(FileExistsError), (slots / str(number)).open("x") as slot:
                    slot.write(made.resource)
                    break
            return replace(made, data={**made.data, "slot": number})

    class Committer(DirectoryCommitter):
        """What is listed is aborted by its name; what is handed in, by its number."""

        def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
            """The number is free then."""
            for branch in branches:
                found = [branch]
                for slot in (self.sink.root / "slots").glob("*"):
                    name = slot.read_text()
                    if isinstance(branch, Committable) and slot.name == str(branch.data["slot"]):
                        found += [doubt for doubt in self.in_doubt() if doubt.resource == name]
                super().abort(found)
                for slot in (self.sink.root / "slots").glob("*"):
                    if slot.read_text() in {each.resource for each in found}:
                        slot.unlink(missing_ok=True)

    writer_class = Writer
    committer_class = Committer
