"""A whole log is brought to another place: all of it, or nothing that anybody could go on with.

What is copied are bytes, in the order of their slots; whether they are a log is asked first. Until all is there the new
place holds a mark, and no journal opens it. The last record of the old log says where it went: who still runs there
meets a taken slot at the next put and is fenced, and no start opens it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT, Journal
from tpc.data_status import annotate_errors, data_status_for_import
from tpc.errors import ConfigurationError, CorruptionError, FencedError, LogGoneError
from tpc.history import History
from tpc.records import RecordKind


@annotate_errors(data_status_for_import)
def import_log(source: Log, target: Log) -> History:
    """Bring every record of `source` from its floor on to `target`, which must be empty; what they tell.

    An import that was interrupted may be repeated until the log goes to another place. Raises `ConfigurationError` when
    `source` is empty, goes on meanwhile or was moved elsewhere, when `target` holds anything else or is the same place,
    and `CorruptionError` when `source` is damaged.
    """
    target.require_lasting()
    journal = Journal(source)
    history = journal.read()
    _refuse_damage(source, history)
    try:
        return _imported(journal, target)
    except KeyError as error:  # pruned after it was listed: only a coordinator that runs does that
        raise _goes_on(source) from error


def _imported(journal: Journal, target: Log) -> History:
    source, history = journal.log, journal.history
    slots = [slot for slot in source.slots() if history.floor <= slot <= history.last_slot]
    slots = slots[:-1] if history.moved_to else slots
    if not slots:
        raise ConfigurationError(f"no intent log in {source.describe()}", remedy="name the place of the log.")
    if history.moved_to not in (None, target.describe()):
        raise _went_elsewhere(journal, target)
    held = _held(source, target, slots)
    if history.moved_to and MARK_SLOT not in held:
        if held == slots:
            return Journal(target).open()  # this very import had ended well
        raise journal.moved()
    _mark(source, target)
    _copy(source, target, slots)
    if not history.moved_to:
        _end(journal, target)
    target.delete([MARK_SLOT])
    return Journal(target).open()


def _went_elsewhere(journal: Journal, target: Log) -> ConfigurationError:
    """An import that was interrupted is not ended once the log has gone on at another place: there would be two."""
    error = journal.moved()
    if MARK_SLOT in target.slots():
        error.remedy += (
            f" What lies at {target.describe()} is of an import that was interrupted, and may be deleted if that is "
            "another place; if it is the same, name it as it is written here."
        )
    return error


def _refuse_damage(source: Log, history: History) -> None:
    if history.damaged:
        where = ", ".join(source.where(damaged.slot) for damaged in history.damaged)
        raise CorruptionError(
            f"the end of the log is damaged: {where}",
            remedy="keep the log where it is and start the pipeline there, or `tpc recover`: it asks the sinks whether "
            "the damaged records may be voided. Then stop it and import again.",
        )


def _held(source: Log, target: Log, slots: Sequence[int]) -> list[int]:
    """What `target` holds: nothing, or the beginning of `source` from an interrupted import; else it raises."""
    held = target.slots()
    copied = [slot for slot in held if slot != MARK_SLOT]
    if copied != list(slots[: len(copied)]) or any(target.read(slot) != source.read(slot) for slot in copied):
        raise _holds_another(target)
    return held


def _mark(source: Log, target: Log) -> None:
    """From here on nobody opens `target`. A mark that is seen in `source` too shows that both are one place."""
    if not target.put(MARK_SLOT, IMPORT_MARK, None):
        raise _holds_another(target)
    if MARK_SLOT in source.slots():
        target.delete([MARK_SLOT])
        raise _same_place(source, target)


def _copy(source: Log, target: Log, slots: Sequence[int]) -> None:
    before: tuple[int, bytes] | None = None
    for slot in slots:
        data = source.read(slot)
        # After a slot that is missing, voided or below a generation record, there is nothing that a put could follow.
        follows = before[1] if before is not None and before[0] == slot - 1 else None
        if not target.put(slot, data, follows):
            raise _holds_another(target)
        before = slot, data


def _end(journal: Journal, target: Log) -> None:
    """The last record of the old log."""
    try:
        journal.append(RecordKind.MOVED, {"to": target.describe()})
    except (FencedError, LogGoneError) as error:
        raise _goes_on(journal.log) from error


def _goes_on(source: Log) -> ConfigurationError:
    return ConfigurationError(
        f"the log at {source.describe()} goes on while it is imported: its pipeline runs",
        remedy="stop the pipeline, empty the new place and import again.",
    )


def _same_place(source: Log, target: Log) -> ConfigurationError:
    return ConfigurationError(
        f"{source.describe()} and {target.describe()} are the same place", remedy="import into another, empty place."
    )


def _holds_another(target: Log) -> ConfigurationError:
    return ConfigurationError(
        f"{target.describe()} is not empty: it holds another log",
        remedy="import into an empty place.",
    )
