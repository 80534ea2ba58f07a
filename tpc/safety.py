"""What holds for the user's rows when an error leaves: said of the phase it leaves in, never of the error's class.

A refused connection says nothing of the epoch: before the decision it means that nothing shows, after it that nothing
is lost. So whoever raises an error says what happened and what to do, and `safe` is set here. Where it is not known
what holds, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

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


@contextmanager
def annotate_errors(say: Callable[[Exception], str]) -> Iterator[None]:
    """Every error of the library that leaves from here says what `say` knows of it: the one place that sets `safe`."""
    try:
        yield
    except TpcError as error:
        error.safe = say(error)
        raise


def data_status(state: MachineState, error: Exception) -> str:
    """What is true for the user's rows when `error` ends what a coordinator was doing in `state`."""
    said = _SAID[state.phase](state, error)
    if isinstance(error, HistoryMismatchError) and error.details.get("lost_epochs"):
        said += f" What sink {error.sink} had of the epochs named here is gone there, not safe."
    return said


def data_status_for_reader(_: Exception) -> str:
    """What holds when a command that only asks has failed."""
    return "nothing was changed."


def data_status_for_record(error: Exception) -> str:
    """What holds when an operator's decision was to be put on the record, and nothing else."""
    if isinstance(error, OvertakenError):
        done = "no row was written, committed or aborted by this command; the decision IS on the record"
        return f"{done}, and the current leader acts on it."
    is_refused = isinstance(error, SlotTakenError)
    if isinstance(error, (DecisionUnknownError, LogGoneError)) or (isinstance(error, FencedError) and not is_refused):
        return "no row was written, committed or aborted; whether the decision is on the record is not known."
    return "nothing was recorded, committed or aborted."


def data_status_for_import(_: Exception) -> str:
    """What holds when a log was to be brought to another place."""
    return "no record of the old log is changed; no pipeline starts on the new place until an import has ended well."


def data_status_for_savepoint(error: Exception) -> str:
    """What holds when a savepoint was to be made."""
    details = error.details if isinstance(error, TpcError) else {}
    said = "log, checkpoint and sinks are as they were; no savepoint was made."
    if isinstance(error, (DecisionUnknownError, LogGoneError)):
        said = "checkpoint and sinks are as they were; whether the log has ended with the savepoint is not known."
    elif details.get("log_has_ended"):
        said = "checkpoint and sinks are as they were; the log has ended with the savepoint, which is not whole yet."
    stopped = " The pipeline that ran here has stopped: repeat the command, or start it again, as no supervisor does."
    return said + (stopped if details.get("stopped") else "")


def data_status_for_upload(_: Exception) -> str:
    """What holds when a savepoint that is made was to be put elsewhere."""
    return "the savepoint is whole in the checkpoint, and every row is where it was; the command may be repeated."


def data_status_for_restore(_: Exception) -> str:
    """What holds when a savepoint was to be restored."""
    return "no sink was changed; no pipeline starts on what is restored until a restore has ended well."


def holds_for_adoption(_: Exception) -> str:
    """What holds when a query's checkpoint was to be adopted."""
    return "the old checkpoint is as it was; no pipeline starts on the new one until an adoption has ended well."


def data_status_for_abort(_: Exception) -> str:
    """What holds when branches of dead pipelines were to be aborted."""
    return "nothing of this pipeline was changed; some of the listed branches may be aborted, which can be repeated."


def _is_led_by_another(error: Exception) -> bool:
    return isinstance(error, FencedError) and not isinstance(error, OperatorActedError)


def _earlier(state: MachineState, error: Exception) -> str:
    """What is decided already, before anything of the running epoch."""
    if isinstance(error, CorruptionError):  # it may contradict what this log says of earlier epochs
        return "what the log and the systems hold was left as it was found"
    if state.pending is not None:
        return f"epoch {state.pending.epoch} is decided and stays so"
    if state.last_complete is not None:
        given_up = _given_up(state, lambda resolution: bool(resolution.ends.keys() - {GivenUp.COMMITTED}))
        return f"every epoch up to {state.last_complete} is complete in every sink{_but_for(given_up)}"
    return "what was decided before stays decided"


def _given_up(state: MachineState, is_meant: Callable[[Resolution], bool]) -> str:
    """Where operators have given branches up, by epoch and sink; empty if nowhere."""
    found = {(r.epoch, r.sink) for r in state.resolutions if r.sink and is_meant(r)}
    return ", ".join(f"epoch {epoch} in sink {sink}" for epoch, sink in sorted(found))


def _but_for(given_up: str) -> str:
    return f", but for what an operator has given up ({given_up})" if given_up else ""


def _not_begun(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; this start has written, committed and aborted no row."


def _claiming(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was committed or aborted, whether the new term is in the log or not."


def _owning(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was committed or aborted. The log has one generation record more."


def _sweeping(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; only branches that nobody has decided are aborted, now or by the next start."


def _between(state: MachineState, error: Exception) -> str:
    return f"{_earlier(state, error)}; nothing was done for the next one."


def _undecided(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"epoch {state.epoch} was not decided by this coordinator; the current leader runs it."
    if isinstance(error, HistoryMismatchError) and error.details.get("lost_epochs"):
        return (
            f"epoch {state.epoch} is not decided and nothing of it is visible; what was prepared of it may stay so "
            "until the sinks show again what the log says: before that no start aborts anything."
        )
    if isinstance(error, HistoryMismatchError) and "lost_epochs" in error.details:  # none is lost: a sink shows more
        return (
            f"epoch {state.epoch} is not decided by this coordinator, which has committed nothing of it; what the sink "
            "shows is somebody else's. What was prepared here may stay so until log and sinks agree."
        )
    return (
        f"epoch {state.epoch} is not decided and nothing of it is visible; what was prepared of it is aborted, "
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
        f"whether epoch {state.epoch} is decided is not known: the log says it as soon as it can be read. Nothing of "
        "it was committed or aborted, and the next start does the one or the other, in every sink."
    )


def _decided(state: MachineState) -> str:
    return f"epoch {state.epoch if state.pending is None else state.pending.epoch} is decided and stays so"


def _finishing(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"{_decided(state)}; the current leader finishes it."
    if isinstance(error, OperatorActedError):
        return (
            f"{_decided(state)}; what is committed of it stands, and the next start does as the operator has decided."
        )
    if isinstance(error, RepairNeededError):
        return f"{_decided(state)}; every branch but the lost ones is committed, and a replay writes these again."
    if isinstance(error, ParkedError):
        return f"{_decided(state)}; every branch is committed but those that are refused or lost; no row is twice."
    pending = state.pending
    given_up = _given_up(
        state, lambda r: pending is not None and r.epoch == pending.epoch and pending.waits_for(r.sink)
    )
    if given_up:
        return (
            f"{_decided(state)}; what is committed of it stands. What an operator has given up ({given_up}) is ended "
            "by the next start if it is not yet, and all else is committed."
        )
    return f"{_decided(state)}; what is committed of it stands, the rest stays to be committed by the next start."


def _completing(state: MachineState, _: Exception) -> str:
    return f"{_decided(state)}, and finished in every sink; if that is not on the record, the next start puts it there."


def _replaying(state: MachineState, _: Exception) -> str:
    if state.pending is None:
        given_up = _given_up(state, lambda r: r.epoch == state.epoch and bool(r.ends.keys() - {GivenUp.COMMITTED}))
        return f"epoch {state.epoch} is complete in every sink{_but_for(given_up)}; a replay of it writes nothing."
    return f"{_decided(state)}; what is committed of it stands, and nothing of this replay shows."


def _repairing(state: MachineState, error: Exception) -> str:
    if _is_led_by_another(error):
        return f"{_decided(state)}; the current leader finishes it."
    return f"{_decided(state)}; what is committed of it stands, what is lost is written again by the next start."


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
