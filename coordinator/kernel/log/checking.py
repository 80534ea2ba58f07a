"""Every record of a log looked at, one by one: what is damaged, what is missing, what does not follow from the other.

Reads and changes nothing. Whether a start may go on with the log is not judged a second time here: the `Journal` says
that of the very bytes that were looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import MARK_SLOT, Journal
from tpc.errors import ConfigurationError, CorruptionError, TpcError
from tpc.fold import beginning
from tpc.history import History
from tpc.records import Record, RecordKind, decode, digest

RESTORE = "restore the log's files from a backup or a mirror, then run `tpc log check` again."


@dataclass(frozen=True)
class Flaw:
    """Something wrong with one slot: `kind` is "import", "damaged", "missing", "chain" or "contradiction"."""

    kind: str
    slot: int
    where: str
    what: str
    remedy: str


@dataclass(frozen=True)
class CheckedLog:
    """What a look at every record found; `first` and `last` are slots."""

    where: str
    counts: Mapping[str, int]
    """Kind of record -> how many of them the log holds."""
    first: int
    last: int
    pruned: int
    """Slots that are still there below where the log begins: an interrupted pruning has left them."""
    voided: tuple[int, ...]
    """Damaged slots that a later term has voided on the record: they never were."""
    flaws: tuple[Flaw, ...]
    history: History | None
    """What a start would read; None where it would be refused, with `refusal`."""
    refusal: TpcError | None


def check_log(log: Log) -> CheckedLog:
    """Read every record of `log` once. Raises `TransientError` when its place does not answer."""
    copy = LogCopy(log)
    history, refusal = _opened(copy)
    records, damaged = _decoded(copy)
    floor = max((record.body.get("floor", 1) for record in records), default=1)
    voids = {
        int(slot): held
        for record in records
        if record.kind is RecordKind.GENERATION
        for slot, held in record.body["voids"].items()
    }
    kept = beginning([record for record in records if record.slot >= floor])
    damaged = [flaw for flaw in damaged if flaw.slot >= floor and flaw.slot not in voids]
    last = copy.slots()[-1]
    first = min([*(record.slot for record in kept[:1]), *(flaw.slot for flaw in damaged), last])
    flaws = [
        *_half_imported(copy),
        *damaged,
        *_missing(copy, range(first, last), voids),
        *_broken_chain(copy, kept, voids),
    ]
    if not flaws and isinstance(refusal, CorruptionError):
        flaws = [Flaw("contradiction", last, copy.where(last), refusal.what, refusal.remedy)]
    return CheckedLog(
        where=copy.describe(),
        counts=Counter(record.kind.value for record in kept),
        first=first,
        last=last,
        pruned=sum(MARK_SLOT < slot < first for slot in copy.slots()),
        voided=tuple(sorted(slot for slot in voids if slot >= first)),
        flaws=tuple(sorted(flaws, key=lambda flaw: flaw.slot)),
        history=history,
        refusal=refusal,
    )


class LogCopy(Log):
    """What a log held when it was read once, whoever goes on with it meanwhile. Takes nothing."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._content = _content(log)

    def slots(self) -> list[int]:
        """See `Log.slots`."""
        return sorted(self._content)

    def read(self, slot: int) -> bytes:
        """See `Log.read`."""
        return self._content[slot]

    def where(self, slot: int) -> str:
        """See `Log.where`."""
        return self._log.where(slot)

    def describe(self) -> str:
        """See `Log.describe`."""
        return self._log.describe()

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`."""
        return self.known_and_followed(slot, data, is_followed=slot + 1 in self._content)

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """A copy is for looking at."""
        raise NotImplementedError

    def delete(self, slots: Sequence[int]) -> None:
        """A copy is for looking at."""
        raise NotImplementedError


def _content(log: Log) -> dict[int, bytes]:
    while True:
        slots = log.slots()
        try:
            return {slot: log.read(slot) for slot in slots}
        except KeyError:
            if log.slots() == slots:
                raise  # a slot that is listed cannot be read, though nobody has pruned it


def _opened(log: Log) -> tuple[History | None, TpcError | None]:
    try:
        return Journal(log).open(), None
    except (CorruptionError, ConfigurationError) as error:
        return None, error


def _decoded(log: Log) -> tuple[list[Record], list[Flaw]]:
    """The whole records in order, and the slots that hold none."""
    records, damaged = list[Record](), list[Flaw]()
    for slot in log.slots():
        if slot == MARK_SLOT:
            continue
        try:
            records.append(decode(log.read(slot), slot))
        except CorruptionError as error:
            damaged.append(Flaw("damaged", slot, log.where(slot), error.what, error.remedy or RESTORE))
    return records, damaged


def _half_imported(log: Log) -> Iterator[Flaw]:
    if MARK_SLOT in log.slots():
        remedy = "repeat what was interrupted: `tpc log import`, `tpc restore` or `tpc adopt`."
        yield Flaw("import", MARK_SLOT, log.where(MARK_SLOT), "an import into this log has not ended", remedy)


def _missing(log: Log, slots: range, voids: Mapping[int, str]) -> Iterator[Flaw]:
    there = {*log.slots(), *voids}
    for slot in slots:
        if slot not in there:
            yield Flaw("missing", slot, log.where(slot), "nothing is there, and records follow", RESTORE)


def _broken_chain(log: Log, kept: Sequence[Record], voids: Mapping[int, str]) -> Iterator[Flaw]:
    """Each record says after which bytes it was put: after those in the slot before, or those that were voided."""
    held = {**{record.slot: digest(log.read(record.slot)) for record in kept}, **voids}
    for record in kept:
        if record.after != held.get(record.slot - 1, record.after):
            what = f"it was put after other bytes than those in slot {record.slot - 1}"
            remedy = f"two logs were mixed or a file was changed: {RESTORE}"
            yield Flaw("chain", record.slot, log.where(record.slot), what, remedy)
