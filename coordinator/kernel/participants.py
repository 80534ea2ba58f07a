"""The sinks of a pipeline as the driver sees them: their committers, asked in parallel.

Turns the machine's wishes (commit these handles, sweep what no intent names) into calls of the sink contract, one
thread a sink. Which branches may be aborted by whom is in `tpc.abort_rules`; when, in the machine.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from itertools import chain
from typing import Any, TypeVar

from tpc import failpoints
from tpc.abort_rules import AbortRules
from tpc.consistency import (
    check_lost_commits,
    check_markers,
    check_markers_before_sweep,
    knows_owner,
    since_generation,
    unknown_owner,
)
from tpc.errors import TpcError, TransientError
from tpc.handles import PipelineId
from tpc.history import History, given_up_in_words
from tpc.manifest import Manifest
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    GivenUp,
    InDoubt,
    Limit,
    Marker,
    Outcome,
    Owner,
    Sink,
    Verdict,
)
from tpc.support.daemon_threads import DaemonThreads
from tpc.waiting import KeepsWaiting, Waiting, told

logger = logging.getLogger(__name__)
_OWNER_ATTEMPTS = 3
Result = TypeVar("Result")


class Participants:
    """All sinks of one pipeline, by name, with their committers. `pool` runs the calls; by default a thread a sink."""

    def __init__(self, pipeline: PipelineId, sinks: Iterable[Sink], pool: Executor | None = None) -> None:
        self.pipeline = pipeline
        self.sinks: dict[str, Sink] = {sink.name: sink for sink in sinks}
        self.committers: dict[str, Committer] = {name: sink.committer(pipeline) for name, sink in self.sinks.items()}
        self.commit_seconds: dict[str, float] = {}
        self._expiring = [name for name, sink in self.sinks.items() if Limit.MARKERS_EXPIRE in sink.limits]
        self._forgotten: set[str] = set()
        """The sinks without a marker of which a warning was logged."""
        self._pool = pool or DaemonThreads(max(1, len(self.sinks)), "tpc-sink")
        self._asked: dict[str, Future[Any]] = {}
        """What each sink was asked last."""

    def close(self) -> None:
        """Let go of every connection: of all sinks, whatever one of them says to it.

        One that does not answer what it was asked before ends with the process.
        """
        self._pool.shutdown(wait=True)
        for name, committer in self.committers.items():
            if name in self._asked and not self._asked[name].done():
                logger.warning("sink %s does not answer: its connections are left open", name)
                continue
            try:
                committer.close()
            except Exception:
                # Nothing rests on it, and an error of its own would hide what ended the pipeline.
                logger.exception("sink %s could not close its connections", name)

    # Before the first epoch ------------------------------------------------------------------------------------

    def missing(self, names: Iterable[str]) -> dict[str, str | None]:
        """What each of `names` says is not there of its target; None where all is."""
        return self._each(names, lambda name: self.committers[name].missing())

    def check(self, contexts: Mapping[str, CheckContext]) -> None:
        """Ask every sink whether it can take part. Raises the first refusal, in the order of the sinks."""
        self._each(contexts, lambda name: self.committers[name].check(contexts[name]))

    def refusals(self, contexts: Mapping[str, CheckContext]) -> dict[str, TpcError]:
        """What each sink that cannot take part says, in the order of the sinks; nothing of one that can."""

        def refusal(name: str) -> TpcError | None:
            try:
                self.committers[name].check(contexts[name])
            except TpcError as error:
                return error
            return None

        answers = self._each(contexts, refusal)
        return {name: answer for name, answer in answers.items() if answer is not None}

    def identities(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Which system each sink, or each of `names`, points at."""
        return self._each(self.sinks if names is None else names, lambda name: self.committers[name].identity())

    def newest_markers(self, history: History, names: Iterable[str] | None = None) -> dict[str, Marker | None]:
        """What each sink (or each of `names`) reports as its newest committed epoch; `history` is the log's."""
        asked = self.sinks if names is None else names
        return self._each(asked, lambda name: self.committers[name].newest_marker(since_generation(history, name)))

    def check_markers(self, history: History, markers: Mapping[str, Marker | None]) -> None:
        """What the sinks report must be what the log says. Raises `HistoryMismatchError`.

        A system may go back while a coordinator lives: a backup is restored, an asynchronous replica promoted.
        """
        forgotten = set(check_markers(history, markers, self._expiring))
        for name in sorted(forgotten - self._forgotten):
            logger.warning("sink %s reports no committed epoch; its markers expire, so this proves nothing", name)
        self._forgotten = (self._forgotten - markers.keys()) | forgotten

    def check_before_sweep(
        self, history: History, listed: Mapping[str, Iterable[InDoubt]], markers: Mapping[str, Marker | None]
    ) -> None:
        """No sink may have lost an epoch of the log in which a branch is about to be swept. `listed` are these.

        What it has lost may be the very marker that distinguishes a committed branch from one in doubt. Raises
        `HistoryMismatchError`.
        """
        check_markers_before_sweep(history, markers, self._expiring)
        check_lost_commits(history, chain.from_iterable(listed.values()))

    def in_doubt(self, names: Iterable[str] | None = None) -> dict[str, list[InDoubt]]:
        """What each sink (or each of `names`) holds prepared for this pipeline, each branch for one sink only."""
        listed = self._each(self.sinks if names is None else names, lambda name: self.committers[name].in_doubt())
        return {
            name: [doubt for doubt in doubts if doubt.sink == name or doubt.sink not in self.sinks]
            for name, doubts in listed.items()
        }

    def tell_waiting(self, listed: Mapping[str, Sequence[InDoubt]]) -> None:
        """Log a warning for each branch in `listed`, which no start ends: who waits for it, until when, what to do."""
        for name, doubts in listed.items():
            committer = self.committers[name]
            waiting: Mapping[str, Waiting] = {}
            if doubts and isinstance(committer, KeepsWaiting):
                try:
                    waiting = committer.waiting(doubts)
                except Exception:  # the listing was answered: this is for people alone, and must not end a start
                    logger.debug("sink %s: who waits could not be asked", name, exc_info=True)
            for doubt in doubts:
                if doubt.resource in waiting:
                    logger.warning("sink %s: %s", name, told(doubt, waiting[doubt.resource]))

    def owners(self, names: Iterable[str] | None = None) -> dict[str, Owner | None]:
        """The owner entry of each sink, or of each of `names`."""
        return self._each(self.sinks if names is None else names, lambda name: self.committers[name].owner())

    def take_ownership(self, owner: Owner, history: History) -> None:
        """Let every sink know the term `owner`, after it was seen that it knows none but terms of this log.

        Raises `HistoryMismatchError` for a sink that has met another log's coordinator, or this log's next one: the
        caller asks who leads. Raises `TransientError`.
        """
        self._each(self.sinks, lambda name: self._own(name, owner, history))

    def _own(self, name: str, owner: Owner, history: History) -> None:
        for _ in range(_OWNER_ATTEMPTS):
            before = self.committers[name].owner()
            if before is not None and not knows_owner(history, name, before):
                raise unknown_owner(history, name, before)
            if self.committers[name].take_ownership(owner, before):
                return
        raise TransientError(f"the owner entry of the sink keeps changing (tried {_OWNER_ATTEMPTS} times)", sink=name)

    # An epoch --------------------------------------------------------------------------------------------------

    def verify(self, manifest: Manifest, history: History) -> None:
        """A last look before the intent, at every sink, also at those without rows in the epoch.

        Raises `TransientError` for the first one that is not sure of its branches, `HistoryMismatchError` for one that
        does not report what `history` says: of a fenced coordinator that is the current leader's work, so the caller
        asks who leads.
        """
        branches = {name: manifest.committables(name) if name in manifest.sinks else () for name in self.sinks}
        since = {name: since_generation(history, name) for name in branches}
        markers = self._each(branches, lambda name: self.committers[name].verify(branches[name], since[name]))
        self.check_markers(history, markers)

    def give_up(self, manifest: Manifest, handles: frozenset[str], identities: Mapping[str, str]) -> dict[str, GivenUp]:
        """End branches that an operator has given up; the outcome of each. `identities` are those of the sinks now.

        A sink that has left the pipeline, or points at another system than the one that holds the branches, is not
        asked: an operator's decision lets it go.
        """
        wanted = _by_sink(manifest, handles)
        ends = {str(c.handle): GivenUp.NOT_KNOWN for committables in wanted.values() for c in committables}
        there = [n for n in wanted if n in self.sinks and identities.get(n) == manifest.sinks[n].identity]
        for name in wanted.keys() - set(there):
            logger.warning("sink %s is another now, or gone: what it holds of what was given up stays there", name)
        for name, found in self._each(there, lambda name: self.committers[name].give_up(wanted[name])).items():
            ends |= {str(c.handle): end for c, end in zip(wanted[name], found, strict=True)}
            logger.warning("sink %s, epoch %d: %s", name, manifest.epoch, given_up_in_words(Counter(found)))
        return ends

    def commit(self, manifest: Manifest, handles: frozenset[str]) -> dict[str, Outcome]:
        """Commit branches of a decided epoch; those that can expire are sent first, nobody waits for them."""
        wanted = _by_sink(manifest, handles)
        order = sorted(wanted, key=lambda name: not self.sinks[name].commits_first)
        answers = self._each(order, lambda name: self._commit_one(name, manifest.epoch, wanted[name]), at_work=True)
        return {handle: outcome for outcomes in answers.values() for handle, outcome in outcomes.items()}

    def _commit_one(self, name: str, epoch: int, committables: Sequence[Committable]) -> dict[str, Outcome]:
        failpoints.hit("sink.commit", sink=name, epoch=epoch)
        started = time.monotonic()
        try:
            outcomes = self.committers[name].commit(committables)
        except TpcError as error:
            # The contract asks for UNKNOWN instead; an error must not take the answers of the other sinks along.
            logger.exception("sink %s raised while committing epoch %d", name, epoch)
            outcomes = [Outcome(Verdict.UNKNOWN, error.what)] * len(committables)
        self.commit_seconds[name] = time.monotonic() - started
        failpoints.hit("sink.committed", sink=name, epoch=epoch)
        return {str(c.handle): outcome for c, outcome in zip(committables, outcomes, strict=True)}

    def release(self, manifest: Manifest, undone: frozenset[str]) -> None:
        """Tell the sinks that an epoch is complete, and which branches are committed: all but those that are undone."""
        winners = {
            name: [c for c in manifest.committables(name) if str(c.handle) not in undone]
            for name in manifest.sinks
            if name in self.sinks
        }
        self._each(winners, lambda name: self.committers[name].released(winners[name], manifest.epoch))

    def completed(self, epoch: int) -> None:
        """Tell the sinks that every epoch up to this one is complete."""
        self._each(self.sinks, lambda name: self.committers[name].completed(epoch))

    # What nobody decided ---------------------------------------------------------------------------------------

    def sweep(self, rules: AbortRules, history: History, still_leading: Callable[[], None]) -> int:
        """Abort every branch in doubt that `rules` may abort; says how many.

        `still_leading` raises when the log has gone on without this coordinator; it is asked between the listing
        and the first abort. Where one of these sinks has lost an epoch of the log, no sink is swept:
        `check_before_sweep` raises.
        """
        listed = self.in_doubt()
        self.tell_waiting({name: rules.foreign_branches(doubts) for name, doubts in listed.items()})
        return self._swept(listed, rules, history, still_leading)

    def sweep_held_up(self, rules: AbortRules, history: History, still_leading: Callable[[], None]) -> int:
        """As `sweep`, in those sinks alone in which something waits for what a prepared branch holds."""
        held_up = self._each(self.sinks, lambda name: self.committers[name].is_held_up())
        waiting = [name for name in self.sinks if held_up[name]]
        listed = self._each(waiting, lambda name: self.committers[name].in_doubt())
        return self._swept(listed, rules, history, still_leading)

    def undo_own_epoch(self, rules: AbortRules) -> None:
        """Abort what a fenced coordinator has prepared for its undecided epoch, in every sink that answers."""
        listed = self.in_doubt()
        to_abort = {name: own for name, doubts in listed.items() if (own := rules.to_abort(doubts))}
        self._each(to_abort, lambda name: self.committers[name].abort(to_abort[name]))

    def _swept(
        self,
        listed: Mapping[str, Sequence[InDoubt]],
        rules: AbortRules,
        history: History,
        still_leading: Callable[[], None],
    ) -> int:
        for doubts in listed.values():
            for foreign in rules.foreign_branches(doubts):
                logger.warning("%s holds a branch of %s; it is left alone", foreign.sink, foreign.pipeline)
        to_abort = {name: own for name, doubts in listed.items() if (own := rules.to_abort(doubts))}
        if not to_abort:
            return 0
        markers = self.newest_markers(history, to_abort)
        still_leading()
        self.check_before_sweep(history, to_abort, markers)
        for name, doubts in to_abort.items():
            logger.info("sink %s: aborting %d branches that no intent names", name, len(doubts))
        self._each(to_abort, lambda name: self.committers[name].abort(to_abort[name]))
        return sum(map(len, to_abort.values()))

    def _each(self, names: Iterable[str], ask: Callable[[str], Result], *, at_work: bool = False) -> dict[str, Result]:
        """`ask` every sink in a thread of its own; raises the first error in order, after all have answered.

        One that is silent is told of, unless it is `at_work` on the rows of an epoch.
        """
        futures: dict[str, Future[Result]] = {name: self._pool.submit(ask, name) for name in names}
        self._asked.update(futures)
        results: dict[str, Result] = {}
        first_error: Exception | None = None
        if not at_work:
            tell_late(futures, self.sinks)
        for name, future in futures.items():
            try:
                results[name] = future.result()
            except TpcError as error:
                first_error = first_error or error.located(pipeline=str(self.pipeline), sink=name)
            except Exception as error:  # noqa: BLE001  a driver's own error waits for the others' answers too
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return results


def _by_sink(manifest: Manifest, handles: frozenset[str]) -> dict[str, list[Committable]]:
    wanted: dict[str, list[Committable]] = {}
    for sink, branch in manifest.branches():
        if str(branch.committable.handle) in handles:
            wanted.setdefault(sink, []).append(branch.committable)
    return wanted


# Says whom the driver waits for: a wrong address is silent until the client's own time is up, half a minute.

TELL_AFTER_S = 3.0


def tell_late(answers: Mapping[str, Future[Any]], sinks: Mapping[str, Sink]) -> None:
    """Return when all answers are there, or after `TELL_AFTER_S` with a warning for each sink that owes one."""
    wait(answers.values(), TELL_AFTER_S)
    for name, answer in answers.items():
        if not answer.done():
            settings = ", ".join(f"{key} {value}" for key, value in sinks[name].describe().items())
            whom = f"{name} ({sinks[name].kind}: {settings})" if settings else f"{name} ({sinks[name].kind})"
            logger.warning("waiting for sink %s: no answer for %g s", whom, TELL_AFTER_S)
