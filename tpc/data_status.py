"""The status of the user's rows when an error is raised. It follows from the phase, never from the error's class.

A refused connection says nothing about the epoch: before the decision nothing is visible, after it nothing is lost. So
the code that raises an error says what happened and what to do, and this module sets `safe`. If the status is unknown,
`safe` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tpc.errors import (
    CorruptionError,
    DecisionUnknownError,
    FencedError,
    HistoryMismatchError,
    LogGoneError,
    OperatorActedError,
    OvertakenError,
    ParkedError,
    RepairNeededError,
    SlotTakenError,
    TpcError,
    TransientError,
)
from tpc.history import Resolution
from tpc.sink import GivenUp
from tpc.states import MachineState, Phase

_NOTE = "Safe: "


@contextmanager
def annotate_errors(say: Callable[[Exception], str]) -> Iterator[None]:
    """Set `safe` of every error of the library that leaves this context to what `say` returns; nothing else sets it.

    Any other error, out of a user's source say, gets it as a note, which Python 3.11 and later print below a traceback.
    """
    try:
        yield
    except TpcError as error:
        error.safe = say(error)
        raise
    except Exception as error:
        noted: Any = error
        notes = [note for note in getattr(noted, "__notes__", []) if not note.startswith(_NOTE)]
        noted.__notes__ = [*notes, f"{_NOTE}{say(error)}"]  # what was said further inside may be of an earlier phase
        raise


def data_status(state: MachineState, error: Exception) -> str:
    """The status of the user's rows when `error` ends what a coordinator was doing in `state`."""
    said = _SAID[state.phase](state, error)
    if isinstance(error, HistoryMismatchError) and error.details.get("lost_epochs"):
        said += f" The rows that sink {error.sink} had of the epochs named here are gone there, not safe."
    return said


def data_status_for_reader(_: Exception) -> str:
    """The status after a command that only reads has failed."""
    return "nothing was changed."


def data_status_for_record(error: Exception) -> str:
    """The status after a command that only records an operator's decision has failed."""
    if isinstance(error, OvertakenError):
        done = "no row was written, committed or aborted by this command; the decision IS on the record"
        return f"{done}, and the current leader acts on it."
    is_refused = isinstance(error, SlotTakenError)
    if isinstance(error, (DecisionUnknownError, LogGoneError)) or (isinstance(error, FencedError) and not is_refused):
        return "no row was written, committed or aborted; whether the decision is on the record is unknown."
    return "nothing was recorded, committed or aborted."


def data_status_for_import(_: Exception) -> str:
    """The status after the import of a log has failed."""
    return "no record of the old log is changed; no pipeline starts on the new place until an import has succeeded."


def data_status_for_savepoint(error: Exception) -> str:
    """The status after the making of a savepoint has failed."""
    details = error.details if isinstance(error, TpcError) else {}
    said = "log, checkpoint and sinks are as they were; no savepoint was made."
    if isinstance(error, (DecisionUnknownError, LogGoneError)):
        said = "checkpoint and sinks are as they were; whether the log has ended with the savepoint is unknown."
    elif details.get("log_has_ended"):
        said = "checkpoint and sinks are as they were; the log has ended with the savepoint, which is not whole yet."
    stopped = " The pipeline that ran here has stopped: repeat the command, or start it again; no supervisor does that."
    return said + (stopped if details.get("stopped") else "")


def data_status_for_upload(_: Exception) -> str:
    """The status after the upload of a finished savepoint has failed."""
    return "the savepoint is whole in the checkpoint, and no row was changed; the command may be repeated."


def data_status_for_restore(_: Exception) -> str:
    """The status after the restore of a savepoint has failed."""
    return "no sink was changed; no pipeline starts on the new place until a restore has succeeded."


def data_status_for_adoption(_: Exception) -> str:
    """The status after the adoption of a query's checkpoint has failed."""
    return "the old checkpoint is as it was; no pipeline starts on the new one until an adoption has succeeded."


def data_status_for_abort(_: Exception) -> str:
    """The status after the abort of branches of dead pipelines has failed."""
    return "nothing of this pipeline was changed; some of the listed branches may be aborted, which can be repeated."


def _is_led_by_another(error: Exception) -> bool:
    return isinstance(error, FencedError) and not isinstance(error, OperatorActedError)


def _earlier(state: MachineState, error: Exception) -> str:
    """What was decided before the running epoch."""
    if isinstance(error, CorruptionError):  # it may contradict what this log says of earlier epochs
        return "log and systems were left as they were found"
    if state.pending is not None:
        return f"epoch {state.pending.epoch} is decided and stays so"
    if state.last_complete is not None:
        given_up = _given_up(state, lambda resolution: bool(resolution.ends.keys() - {GivenUp.COMMITTED}))
        return f"every epoch up to {state.last_complete} is complete in every sink{_but_for(given_up)}"
    return "what was decided before stays decided"


def _given_up(state: MachineState, is_meant: Callable[[Resolution], bool]) -> str:
    """The epochs and sinks in which operators have given branches up; empty if there are none."""
    found = {(r.epoch, r.sink) for r in state.resolutions if r.sink and is_meant(r)}
    return ", ".join(f"epoch {epoch} in sink {sink}" for epoch, sink in sorted(found))


def _but_for(given_up: str) -> str:
    return f", except what an operator has given up ({given_up})" if given_up else ""


def _not_begun(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; this start has written, committed and aborted no row."


def _claiming(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was committed or aborted, even if the new generation is in the log."


def _owning(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was committed or aborted. The log has a new generation record."


def _sweeping(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; only undecided branches are aborted, now or by the next start."


def _between(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was done for the next one."


def _undecided(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"epoch {state.epoch} was not decided by this coordinator; the current leader runs it."
    if isinstance(error, HistoryMismatchError) and error.details.get("lost_epochs"):
        return (
            f"epoch {state.epoch} is not decided and nothing of it is visible; its prepared branches may stay prepared "
            "until sinks and log agree: before that no start aborts anything."
        )
    if isinstance(error, HistoryMismatchError) and "lost_epochs" in error.details:  # none is lost: a sink reports more
        return (
            f"epoch {state.epoch} is not decided by this coordinator, which has committed nothing of it; the sink "
            "reports an epoch of another writer. Branches prepared here may stay prepared until log and sinks agree."
        )
    return (
        f"epoch {state.epoch} is not decided and nothing of it is visible; its prepared branches are aborted, "
        "by the next start at the latest."
    )


def _aborting(state: MachineState, error: Exception) -> str:
    decided = state.last_decided
    is_replay = decided is not None and state.epoch is not None and state.epoch <= decided
    return _replaying(state, error) if is_replay else _undecided(state, error)


def _deciding(state: MachineState, error: Exception) -> str:
    if isinstance(error, TransientError):  # the log's word that nothing was put, ever (`Log.put`)
        return _undecided(state, error)
    if _is_led_by_another(error):
        return f"the log says whether epoch {state.epoch} is decided: the current leader finishes it or runs it."
    return (
        f"whether epoch {state.epoch} is decided is unknown until the log can be read. Nothing of it was committed or "
        "aborted; the next start commits it in every sink or aborts it in every sink."
    )


def _decided(state: MachineState) -> str:
    return f"epoch {state.epoch if state.pending is None else state.pending.epoch} is decided and stays so"


def _finishing(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"{_decided(state)}; the current leader finishes it."
    if isinstance(error, OperatorActedError):
        return f"{_decided(state)}; what is committed of it stays, and the next start acts on the operator's decision."
    if isinstance(error, RepairNeededError):
        return f"{_decided(state)}; every branch but the lost ones is committed, and a replay writes these again."
    if isinstance(error, ParkedError):
        return f"{_decided(state)}; every branch is committed but those that are refused or lost; no row is doubled."
    pending = state.pending
    given_up = _given_up(
        state, lambda r: pending is not None and r.epoch == pending.epoch and pending.waits_for(r.sink)
    )
    if given_up:
        return (
            f"{_decided(state)}; what is committed of it stays. The next start ends what an operator has given up "
            f"({given_up}), if that is not done yet, and commits all else."
        )
    return f"{_decided(state)}; what is committed of it stays, and the next start commits the rest."


def _completing(state: MachineState, _: Exception) -> str:
    return f"{_decided(state)}, and finished in every sink; if the log does not say so yet, the next start records it."


def _replaying(state: MachineState, _: Exception) -> str:
    if state.pending is None:
        given_up = _given_up(state, lambda r: r.epoch == state.epoch and bool(r.ends.keys() - {GivenUp.COMMITTED}))
        return f"epoch {state.epoch} is complete in every sink{_but_for(given_up)}; a replay of it writes nothing."
    return f"{_decided(state)}; what is committed of it stays, and nothing of this replay is visible."


def _repairing(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"{_decided(state)}; the current leader finishes it."
    return f"{_decided(state)}; what is committed of it stays, and the next start writes the lost branches again."


def _ended(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; this coordinator had ended before, and has done nothing since."


_SAID: Mapping[Phase, Callable[[MachineState, Exception], str]] = {
    Phase.NEW: _not_begun,
    Phase.CLAIMING: _claiming,
    Phase.OWNING: _owning,
    Phase.SWEEPING: _sweeping,
    Phase.READY: _between,
    Phase.WRITING: _undecided,
    Phase.VERIFYING: _undecided,
    Phase.ABORTING: _aborting,
    Phase.DECIDING: _deciding,
    Phase.FINISHING: _finishing,
    Phase.COMPLETING: _completing,
    Phase.REPLAYING: _replaying,
    Phase.REPAIRING: _repairing,
    Phase.STOPPED: _ended,
}
