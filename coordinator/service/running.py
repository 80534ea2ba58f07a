"""A service that runs: recovery, then one epoch after the other until it is asked to stop.

The order of a start: the coordinator has taken over (what was decided is finished, what was not is swept); the states
are read as they were when the last decided epoch ended, and the sources are sought to where it ended. Where one of its
branches is lost, the epoch is run again from its recorded start to its recorded end, with the states before it; lost
source offsets alone are written again as recorded. What no intent names is simply read again, up to another cut
perhaps: nothing was decided of it.

Between epochs, and not within one, Python looks for old garbage.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from tpc import failpoints
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.feeding.background_call import BackgroundCall
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.lost_offsets import OffsetsRepair, only_offsets_are_lost
from tpc.coordinator.kernel.given_up import cost_of_giving_up
from tpc.coordinator.kernel.resolve_commands import resolve_command
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service.computing import Computation, Positions
from tpc.coordinator.service.cutting import Cut, Cutter
from tpc.coordinator.service.epoch_cancellation import CancellationToken, EpochAbandonedError, OneProcess, Stop
from tpc.coordinator.service.epoch_input import (
    SourceCut,
    TimesToLive,
    check_sources,
    cuts_of,
    epoch_input_of,
    last_cuts,
    last_time,
    time_of,
    times_to_live_of,
)
from tpc.coordinator.service.firing import soonest
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.reading_ahead import ReadingAhead
from tpc.coordinator.service.row_batches import RowBatches
from tpc.coordinator.service.service_pass import ServicePass
from tpc.errors import ConfigurationError, LeadershipUnknownError, TransientError
from tpc.history import Action
from tpc.manifest import EpochInput, Manifest
from tpc.sink import Sink
from tpc.support.fork_safe_lock import ForkSafeLock
from tpc.time_to_live import TimeToLive, time_to_live_in
from tpc.watermark import EpochTime

logger = logging.getLogger(__name__)

_UPKEEP_INTERVAL_S = 1.0
_POLL_S = 0.1


class Running:
    """One process of a service whose coordinator has taken over."""

    def __init__(self, coordinator: Coordinator, program: Program, cutter: Cutter, stop_request: StopRequest) -> None:
        self._coordinator = coordinator
        self._program = program
        self._cutter = cutter
        self._batches = RowBatches(program.writings)
        self._stop = Stop(stop_request)
        self._one_process = OneProcess()
        self._misused: list[ConfigurationError] = []
        """What was raised where an `out` was used after its epoch, or by another thread."""
        self._kept_at = time.monotonic()
        self._ttls_ms = {state.name: state.ttl_ms for state in program.states}
        self._lives: TimesToLive = {}
        """Of the last decided epoch."""

    def stop(self) -> None:
        """Stop after the current epoch. A decided one that cannot be committed now is finished by the next start.

        One that is undecided, and takes long, is given up: the next start reads its events again.
        """
        self._stop.ask()
        self._coordinator.engine.stopping.set()

    def close(self) -> None:
        """Let go of the states' stores: what waits for Python's collector would keep their files open."""
        for state in self._program.states:
            state.close()

    # Starting --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Repair what is lost of the decided epoch, and stand where it ended."""
        engine = self._coordinator.engine
        failpoints.hit("recovery.reconcile", generation=engine.state.generation)
        with engine.annotate_errors():
            self._stop.begin()
            last, cuts = last_cuts(self._coordinator.journal.history)
            check_sources(cuts, [each.name for each in self._program.inputs], self._program.retired)
        if last is not None and only_offsets_are_lost(last, engine.state.lost, self._offsets_sink()):
            self._write_offsets_again(last)
        elif last is not None and engine.state.lost:
            self._repair(last)
        with engine.annotate_errors():
            for state in self._program.states:
                state.restore()
            self._cutter.seek(cuts, last_time(last))
            self._lives = {} if last is None else times_to_live_of(last)
            self._cutter.wait_for(soonest(self._program.timed))
        failpoints.hit("recovery.reconciled", generation=engine.state.generation)

    def _repair(self, manifest: Manifest) -> None:
        """Run the decided epoch again, with the states before it; only what is lost of it is written."""
        engine = self._coordinator.engine
        with engine.annotate_errors():
            cuts, read = cuts_of(manifest), {each.name for each in self._program.inputs}
            check_repairable(manifest, engine.state.lost, cuts, read, partial(self._accept_loss, manifest.epoch))
            logger.warning("epoch %d has lost branches: it is run again to write them", manifest.epoch)
            for state in self._program.states:
                state.restore(before=manifest.epoch)
            with self._one_process:
                cut = self._cutter.again(cuts, time_of(manifest))
        stood = {name: part.position_before for name, part in manifest.sinks.items()}
        lives = times_to_live_of(manifest)
        self._run(manifest.epoch, cut, manifest.epoch_input, stood, lives, decided=manifest)

    def _write_offsets_again(self, manifest: Manifest) -> None:
        """No event is needed for them: their sources may be retired, and no function runs."""
        logger.warning("epoch %d has lost its source offsets: they are written again", manifest.epoch)
        repair = OffsetsRepair(self._context(manifest.epoch_input, {}))
        try:
            with self._coordinator.engine.epoch(manifest.epoch, repair) as epoch:
                assert epoch.replay is not None  # it is decided
                replayed = repair.replay(epoch.replay)
                epoch.replayed(replayed, repair.report)
                epoch.finish()
        except LeadershipUnknownError:
            raise  # the log is to be brought back first, and no offsets are to be given up for that
        except (ConfigurationError, TransientError) as error:
            error.remedy = remedy_for_offsets(self._accept_loss(manifest.epoch, str(self._program.offsets_sink)))
            raise

    def _offsets_sink(self) -> Sink | None:
        name = self._program.offsets_sink
        return None if name is None else self._coordinator.participants.sinks[name]

    def _accept_loss(self, epoch: int, sink: str) -> str:
        coordinator = self._coordinator
        log, checkpoint, loss = coordinator.journal.log, coordinator.checkpoint, Action.ACCEPT_LOSS
        return resolve_command(log, checkpoint, epoch, sink, loss, is_refused=False)

    # Epochs ----------------------------------------------------------------------------------------------------

    def run(self, *, until_end: bool) -> None:
        """One epoch after the other, until it is asked to stop; with `until_end`, until the sources are exhausted."""
        garbage = Garbage()
        garbage.begin()
        try:
            while True:
                self._keep_up()  # a source that always has something leaves no quiet moment
                with self._one_process:  # events are decoded, and asked for their time
                    cut = self._cutter.next(self._stop.is_asked, self._keep_up, until_end=until_end)
                if cut is None:
                    return
                epoch, history = self._coordinator.engine.state.last_decided, self._coordinator.journal.history
                lives = self._lives_in(cut.time)
                epoch_input = epoch_input_of(cut.sources, cut.time, stateful=bool(self._program.states), lives=lives)
                positions = {logged.changelog_name: logged.position(history) for _, logged in self._program.changelogs}
                number = 0 if epoch is None else epoch + 1
                try:
                    with ReadingAhead(self._cutter.read_ahead, self._stop.is_asked) as ahead:
                        self._run(number, cut, epoch_input, positions, lives, ahead=ahead)
                except EpochAbandonedError:
                    logger.info("epoch %d is given up: nothing of it is decided, and the next start reads it", number)
                    return
                self._lives = lives
                self._cutter.wait_for(soonest(self._program.timed))
                garbage.between_epochs()
        finally:
            garbage.end()

    def _lives_in(self, time: EpochTime) -> TimesToLive:
        """By which times to live states live in an epoch: those of the program, and of states that it has no more."""
        gone = {name: TimeToLive(life.ttl_ms, life.ttl_ms) for name, life in self._lives.items()}
        return {
            **gone,
            **{name: time_to_live_in(ttl, self._lives.get(name), time) for name, ttl in self._ttls_ms.items()},
        }

    def _run(
        self,
        epoch: int,
        cut: Cut,
        epoch_input: EpochInput,
        positions: Positions,
        lives: TimesToLive,
        *,
        ahead: ReadingAhead | None = None,
        decided: Manifest | None = None,
    ) -> None:
        """One epoch; `decided` is its manifest, if it has one."""
        failpoints.hit("epoch.planned", epoch=epoch)
        began_s, came = time.monotonic(), cut.came
        cancellation = CancellationToken(self._stop if decided is None else None, self._one_process)
        compute = self._computation(epoch, cut, positions, lives, cancellation, decided)

        def on_fed() -> None:
            self._cutter.took(came, time.monotonic() - began_s)

        service_pass = ServicePass(
            self._context(epoch_input, positions),
            self._batches,
            compute,
            cancellation,
            confirm=self._cutter.confirmation(),
            ahead=ahead,
            on_fed=on_fed,
        )
        try:
            self.run_epoch(epoch, service_pass)
        except BaseException:
            for state in self._program.states:
                state.abandon()
            raise

    def run_epoch(self, number: int, service_pass: ServicePass) -> None:
        """Compute, write, decide and commit one epoch; a decided one is compared, and what is lost of it written.

        The explorer overrides it, to run one epoch step by step.
        """
        with self._coordinator.engine.epoch(number, service_pass) as epoch:
            if epoch.replay is None:
                manifest = service_pass.write(number, epoch.generation)
                epoch.decide(manifest, service_pass.report)
            else:
                replayed = service_pass.replay(epoch.replay)
                epoch.replayed(replayed, service_pass.report)
            epoch.finish(is_kept_up=True)

    def _computation(
        self,
        epoch: int,
        cut: Cut,
        positions: Positions,
        lives: TimesToLive,
        cancellation: CancellationToken,
        decided: Manifest | None,
    ) -> Computation:
        history, letters = self._coordinator.journal.history, self._program.dead_letters
        decided_letters = None if decided is None else 0 if letters is None else letters.count_in(decided)
        return Computation(
            self._program,
            epoch,
            cut,
            lives,
            positions,
            self._misused,
            history,
            cancellation,
            decided_letters=decided_letters,
        )

    def _context(self, epoch_input: EpochInput, positions: Positions) -> PassContext:
        engine, participants = self._coordinator.engine, self._coordinator.participants
        return PassContext(
            pipeline=participants.pipeline,
            epoch_input=epoch_input,
            sinks=participants.sinks,
            committers=participants.committers,
            identities=engine.generation_fields["sinks"],
            previous_epochs={name: engine.journal.history.last_epoch_of(name) for name in participants.sinks},
            positions=positions,
            offsets_sink=self._program.offsets_sink,
            unrouted_is_error=self._program.unrouted_is_error,
            phases=engine.executor.phases,
        )

    # Between epochs --------------------------------------------------------------------------------------------

    def _keep_up(self) -> None:
        """Sweep if it is time to, begin a new term, and look for the words of other processes."""
        now = time.monotonic()
        if now - self._kept_at >= _UPKEEP_INTERVAL_S:
            self._kept_at = now
            self._coordinator.hold()
            self._sweep_and_renew()
            if self._stop.is_overdue():
                return  # the next question could meet the same silence
            if self._program.peer_shards is not None:
                with self._coordinator.engine.annotate_errors():
                    self._program.peer_shards.renew()
            self._stop.look()

    def _sweep_and_renew(self) -> None:
        """In a thread of its own: a stop does not wait for a sink that is silent. What it does is safe to leave."""
        call = BackgroundCall("tpc-upkeep", self._coordinator.engine.upkeep)
        try:
            call.begin()
        except RuntimeError:  # the process may have no more threads: then a stop waits for the sinks
            self._coordinator.engine.upkeep()
            return
        while not call.has_ended(_POLL_S):
            if self._stop.is_overdue():
                logger.warning("the service ends, and a sink has not answered the sweep: the next start sweeps")
                return
        if call.error is not None:
            raise call.error


# Whether a decided epoch with lost branches can be run again: its sources must be read still. Runs nothing itself.


def check_repairable(
    manifest: Manifest,
    lost: Collection[str],
    cuts: Sequence[SourceCut],
    read: Collection[str],
    accept_loss: Callable[[str], str],
) -> None:
    """Raises `ConfigurationError` where the epoch has rows of a source that is not among those that are `read`.

    `lost` are the handles of its lost branches, `cuts` how far it has read; `accept_loss` is the command by which an
    operator gives up what a sink has lost.
    """
    gone = [cut.name for cut in cuts if cut.start != cut.end and cut.name not in read]
    if not gone:
        return
    sinks = sorted({sink for sink, branch in manifest.branches() if str(branch.committable.handle) in lost})
    costs = "".join(f" {cost}." for sink in sinks if (cost := cost_of_giving_up(manifest, sink)))
    raise ConfigurationError(
        f"{_named('sink', sinks)} has lost what it had prepared of epoch {manifest.epoch}, and the rows can be made "
        f"again from {_named('source', gone)} only, which is not read any more",
        pipeline=str(manifest.pipeline),
        epoch=manifest.epoch,
        sink=sinks[0] if sinks else None,
        remedy="start once with `service.read` of it, without `service.retire`; retire it when the epoch is complete. "
        f"If it is gone, give the lost rows up: {', '.join(f'`{accept_loss(sink)}`' for sink in sinks)}.{costs}",
    )


def remedy_for_offsets(accept_loss: str) -> str:
    """What to do where lost source offsets cannot be written again. `accept_loss` is the command that gives them up."""
    return (
        "remove the cause and restart: the source offsets of the epoch are written then, and no event is read again. "
        f"If a topic of it is gone for good, give the offsets up: `{accept_loss}`. No row is lost by that, and the "
        "next epoch moves the consumer group."
    )


def _named(what: str, names: Sequence[str]) -> str:
    return " and ".join(f"{what} {name!r}" for name in names)


# When a service's process looks for old garbage that refers to itself: between epochs, not in the middle of one.
#
# Every event of an epoch lives until its end. Python would take them for old objects, and look through them and through
# all libraries every some ten thousand events: a fifth of the processor's time of a service, and more with a state
# (measured). Young objects, as functions leave them behind, are looked through at any time as ever.

_NEVER = 1_000_000_000
_garbage_lock = ForkSafeLock(fork_waits=True)


class Garbage:
    """Of this process, from `begin` to `end`. A program that has switched Python's collector off is left alone.

    Services of one process overlap in any order: the first one that begins notes how the collector was, the last one
    that ends restores it. If each restored what it had found, the one that ends last would leave the process without a
    look at old garbage for good.
    """

    _begun = 0
    _thresholds = (0, 0, 0)
    _was_frozen = False

    def __init__(self) -> None:
        self._is_begun = False
        self._is_first = True

    def begin(self) -> None:
        """What is there, libraries above all, is set aside: looked through again at the end."""
        if not gc.isenabled():
            return
        with _garbage_lock:
            if not Garbage._begun:
                Garbage._thresholds, Garbage._was_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
                gc.set_threshold(*Garbage._thresholds[:2], _NEVER)
            Garbage._begun += 1
            self._is_begun = True
        self._set_aside()

    def between_epochs(self) -> None:
        """Look for it, if so many new objects have grown old that Python would."""
        if not self._is_begun:
            return
        if self._is_first:  # which has loaded what was still to be loaded
            self._is_first = False
            self._set_aside()
        elif gc.get_count()[2] > Garbage._thresholds[2]:
            gc.collect()

    def end(self) -> None:
        """As it was before, once no other service runs; what the program itself has set aside stays so."""
        if not self._is_begun:
            return
        self._is_begun = False
        with _garbage_lock:
            Garbage._begun -= 1
            if not Garbage._begun:
                gc.set_threshold(*Garbage._thresholds)
                if not Garbage._was_frozen:
                    gc.unfreeze()

    def _set_aside(self) -> None:
        gc.collect()
        gc.freeze()
