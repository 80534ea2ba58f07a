"""The sinks of a pipeline as the driver sees them: their committers, asked in parallel.

Turns the machine's wishes (commit these handles, sweep what no intent names) into calls of the sink contract, one
thread a sink. Which branches may be aborted by whom stands in `tpc.sweeping`; when, in the machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

from tpc import failpoints
from tpc.belonging import check_markers, knows_owner, oldest_generation, unknown_owner
from tpc.errors import TpcError, TransientError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import CheckContext, Committable, Committer, InDoubt, Limit, Marker, Outcome, Owner, Sink, Verdict
from tpc.sweeping import Sweeper

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
        self._pool = pool or ThreadPoolExecutor(max_workers=max(1, len(self.sinks)), thread_name_prefix="tpc-sink")

    def close(self) -> None:
        """Let go of every connection: of all sinks, whatever one of them says to it."""
        self._pool.shutdown(wait=True)
        for name, committer in self.committers.items():
            try:
                committer.close()
            except Exception:
                # Nothing rests on it, and an error of its own would hide what ended the pipeline.
                logger.exception("sink %s could not close its connections", name)

    # Before the first epoch ------------------------------------------------------------------------------------

    def check(self, contexts: Mapping[str, CheckContext]) -> None:
        """Ask every sink whether it can take part. Raises the first refusal, in the order of the sinks."""
        self._each(contexts, lambda name: self.committers[name].check(contexts[name]))

    def identities(self) -> dict[str, str]:
        """Which system each sink points at."""
        return self._each(self.sinks, lambda name: self.committers[name].identity())

    def newest_markers(self, since_generation: int, names: Iterable[str] | None = None) -> dict[str, Marker | None]:
        """What each sink (or each of `names`) shows as its newest committed epoch."""
        asked = self.sinks if names is None else names
        return self._each(asked, lambda name: self.committers[name].newest_marker(since_generation))

    def check_shown(self, history: History, markers: Mapping[str, Marker | None]) -> None:
        """What sinks show must be what the log says. Raises `HistoryMismatchError`."""
        expiring = [name for name, sink in self.sinks.items() if Limit.MARKERS_EXPIRE in sink.limits]
        for name in check_markers(history, markers, expiring):
            logger.warning("sink %s shows no epoch any more; its markers expire, so this proves nothing", name)

    def in_doubt(self) -> dict[str, list[InDoubt]]:
        """What each sink holds prepared under this pipeline's name, each branch listed for one sink only."""
        listed = self._each(self.sinks, lambda name: self.committers[name].in_doubt())
        return {
            name: [doubt for doubt in doubts if doubt.sink == name or doubt.sink not in self.sinks]
            for name, doubts in listed.items()
        }

    def owners(self) -> dict[str, Owner | None]:
        """The owner entry of each sink."""
        return self._each(self.sinks, lambda name: self.committers[name].owner())

    def take_ownership(self, owner: Owner, history: History, still_leading: Callable[[], None]) -> None:
        """Let every sink know the term `owner`, after it was seen that it knows none but terms of this log.

        Raises `HistoryMismatchError` for a sink that has met another log's coordinator, `FencedError` when that is
        only this log's next one, `TransientError`.
        """
        self._each(self.sinks, lambda name: self._own(name, owner, history, still_leading))

    def _own(self, name: str, owner: Owner, history: History, still_leading: Callable[[], None]) -> None:
        for _ in range(_OWNER_ATTEMPTS):
            before = self.committers[name].owner()
            if before is not None and not knows_owner(history, before):
                still_leading()
                raise unknown_owner(history, name, before)
            if self.committers[name].take_ownership(owner, before):
                return
        raise TransientError(f"the owner entry of the sink keeps changing (tried {_OWNER_ATTEMPTS} times)", sink=name)

    # An epoch --------------------------------------------------------------------------------------------------

    def verify(self, manifest: Manifest) -> None:
        """A last look before the intent. Raises `TransientError` for the first sink that is not sure."""
        parts = {name: manifest.committables(name) for name in manifest.sinks if manifest.committables(name)}
        self._each(parts, lambda name: self.committers[name].verify(parts[name]))

    def commit(self, manifest: Manifest, handles: frozenset[str], abandoned: frozenset[str]) -> dict[str, Outcome]:
        """Commit branches of a decided epoch; those that can expire are sent first, nobody waits for them."""
        given_up = self._present(_by_sink(manifest, abandoned))
        self._each(given_up, lambda name: self.committers[name].abort(given_up[name]))
        wanted = _by_sink(manifest, handles)
        order = sorted(wanted, key=lambda name: not self.sinks[name].commits_first)
        answers = self._each(order, lambda name: self._commit_one(name, manifest.epoch, wanted[name]))
        return {handle: outcome for outcomes in answers.values() for handle, outcome in outcomes.items()}

    def _present(self, wanted: dict[str, list[Committable]]) -> dict[str, list[Committable]]:
        """Without the sinks that are no part of the pipeline any more; an operator's decision lets them go."""
        for name in wanted.keys() - self.sinks.keys():
            logger.warning("sink %s is gone from the pipeline: its given-up branches stay in doubt there", name)
        return {name: committables for name, committables in wanted.items() if name in self.sinks}

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

    def release(self, manifest: Manifest) -> None:
        """Tell the sinks that an epoch is complete."""
        present = [name for name in manifest.sinks if name in self.sinks]
        self._each(present, lambda name: self.committers[name].released(manifest.committables(name), manifest.epoch))

    # What nobody decided ---------------------------------------------------------------------------------------

    def sweep(self, sweeper: Sweeper, history: History, still_leading: Callable[[], None]) -> int:
        """Abort every branch in doubt that `sweeper` may abort; says how many.

        `still_leading` raises when the log has gone on without this coordinator; it is asked between the listing
        and the first abort. A sink that does not show what `history` says is not swept, nor is any other: what it has
        lost may be the very thing by which it tells a committed branch from one in doubt (`HistoryMismatchError`).
        """
        listed = self.in_doubt()
        for doubts in listed.values():
            for stranger in sweeper.strangers(doubts):
                logger.warning("%s holds a branch of %s; it is left alone", stranger.sink, stranger.pipeline)
        doomed = {name: own for name, doubts in listed.items() if (own := sweeper.doomed(doubts))}
        if not doomed:
            return 0
        markers = self.newest_markers(oldest_generation(history), doomed)
        still_leading()
        self.check_shown(history, markers)
        for name, doubts in doomed.items():
            logger.info("sink %s: aborting %d branches that no intent names", name, len(doubts))
        self._each(doomed, lambda name: self.committers[name].abort(doomed[name]))
        return sum(map(len, doomed.values()))

    def _each(self, names: Iterable[str], ask: Callable[[str], Result]) -> dict[str, Result]:
        """`ask` every sink in a thread of its own; raises the first error in order, after all have answered."""
        futures: dict[str, Future[Result]] = {name: self._pool.submit(ask, name) for name in names}
        results: dict[str, Result] = {}
        first_error: Exception | None = None
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
