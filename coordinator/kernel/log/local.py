"""The log in a local directory: one file a slot, put if absent by a hard link.

A put writes an exclusive temporary file, fsyncs it, links it to the slot's name (which fails when the name
exists), and fsyncs the directory; 0.3 ms on a local disk. Slots are durable when `put` returns True. The first put
makes the directory, durable up to one that existed before; no other does, since a directory that is gone may be an
unmounted disk. Network file systems are not local: they may lie about links and fsync. A log that lies beside its
checkpoint on one is refused.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from pathlib import Path

from tpc import failpoints
from tpc.coordinator.kernel.log.contract import Log
from tpc.errors import DecisionUnknownError, TransientError
from tpc.support import durable_files
from tpc.support.durable_files import in_words
from tpc.support.file_rights import remedy_for

LOG_FOLDER = Path("tpc") / "log"
"""Where the log lies in a checkpoint, unless the user gives another."""
_SLOT_FILE = re.compile(r"(\d{20})\.json")
_TEMPORARY_PREFIX = ".put-"
_TEMPORARY_FILE = re.compile(r"\.put-(\d+)-[0-9a-f]{32}")


class LocalLog(Log):
    """A log in `directory`, which is made when the first record is put."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """See `Log.put`."""
        if after is not None:
            self.require_before(slot, after)
        temporary = self.directory / f"{_TEMPORARY_PREFIX}{slot}-{uuid.uuid4().hex}"
        try:
            if after is None:
                durable_files.make_directories(self.directory)
            durable_files.create(
                temporary,
                data,
                mode=0o644,
                before_write=lambda: failpoints.hit("log.write", slot=slot),
                before_sync=lambda: failpoints.hit("log.fsync", slot=slot),
            )
        except FileNotFoundError as error:
            raise self.gone(slot - 1) from error
        except OSError as error:
            raise TransientError(
                f"the log at {self.directory} cannot take slot {slot}: {in_words(error)}",
                remedy=remedy_for(error, "free space or repair the disk, then restart the pipeline."),
            ) from error
        is_ours = self._put(temporary, self._path(slot), data, slot)
        if after is not None:
            self.require_still_before(slot, after)
        return is_ours

    def _put(self, temporary: Path, target: Path, data: bytes, slot: int) -> bool:
        """Whether `target` holds `data` now, durably."""
        try:
            if not self._linked(temporary, target, data, slot):
                return False
            failpoints.hit("log.linked", slot=slot)
            durable_files.sync(self.directory)
        except FileNotFoundError as error:
            raise self.gone(slot - 1) from error
        except OSError as error:
            raise self._unknown(slot, error) from error
        return True

    def _linked(self, temporary: Path, target: Path, data: bytes, slot: int) -> bool:
        """Whether `target` holds `data` now, put there by this link or by an earlier put of the same bytes."""
        try:
            failpoints.hit("log.link", slot=slot)
            os.link(temporary, target)
        except FileExistsError:
            try:
                return target.read_bytes() == data
            except FileNotFoundError:
                return False  # taken, and pruned since: somebody else is far ahead
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _unknown(self, slot: int, error: OSError) -> DecisionUnknownError:
        return DecisionUnknownError(f"slot {slot} of the log at {self.directory} may be durable: {error.strerror}")

    def _unreadable(self, error: OSError) -> TransientError:
        return TransientError(
            f"the log at {self.directory} cannot be read: {in_words(error)}",
            remedy=remedy_for(error, "repair the disk, or the limit that was met, then restart the pipeline."),
        )

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`."""
        return self.known_and_followed(slot, data, is_followed=self._is_there(slot + 1))

    def _is_there(self, slot: int) -> bool:
        try:
            self._path(slot).lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unreadable(error) from error
        return True

    def slots(self) -> list[int]:
        """See `Log.slots`. A long directory is not listed at one moment.

        Of two slots put meanwhile a listing may name the later one alone; the next one names both, as they are there.
        """
        slots = self._listed()
        if not slots or len(slots) == slots[-1] - slots[0] + 1:
            return slots
        return [slot for slot in self._listed() if slot <= slots[-1]]

    def _listed(self) -> list[int]:
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        return sorted(int(match[1]) for name in names if (match := _SLOT_FILE.fullmatch(name)))

    def read(self, slot: int) -> bytes:
        """See `Log.read`."""
        try:
            return self._path(slot).read_bytes()
        except FileNotFoundError as error:
            raise KeyError(slot) from error
        except OSError as error:
            raise self._unreadable(error) from error

    def delete(self, slots: Sequence[int]) -> None:
        """See `Log.delete`. Takes along what interrupted puts of these and lower slots have left."""
        try:
            for slot in sorted(slots):
                self._path(slot).unlink(missing_ok=True)
            for path in self.directory.glob(f"{_TEMPORARY_PREFIX}*"):
                left = _TEMPORARY_FILE.fullmatch(path.name)
                if left and slots and int(left[1]) <= max(slots):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise TransientError(
                f"the log at {self.directory} cannot be pruned: {in_words(error)}",
                remedy=remedy_for(error, "repair the disk, or the rights to delete in that directory."),
            ) from error

    def where(self, slot: int) -> str:
        """See `Log.where`."""
        return str(self._path(slot))

    def describe(self) -> str:
        """See `Log.describe`."""
        return str(self.directory)

    def _path(self, slot: int) -> Path:
        return self.directory / f"{slot:020d}.json"
