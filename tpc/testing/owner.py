"""The owner entry: which generation was the last to fence the system, compared and set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tpc.handles import PipelineId
from tpc.sink import Committer, Limit, Owner
from tpc.testing.bench import Bench
from tpc.testing.deadlines import race
from tpc.testing.kit_tests import KitTests
from tpc.testing.names import FULL
from tpc.testing.processes import ask
from tpc.testing.requirements import Clause, no_error, require

FIRST = Owner(1, "nonce-of-the-first", 1_700_000_000.25)
SECOND = Owner(2, "nonce-of-the-second", 1_700_000_100.5)
COPY = Owner(2, "nonce-of-a-copied-checkpoint", 1_700_000_100.5)
THIRD = Owner(3, "nonce-of-the-third", 1_700_000_200.75)

STRANGERS = {
    "another nonce": COPY,
    "another generation": replace(SECOND, generation=20),
    "both": FIRST,
}
"""Entries that are not the one which the sink holds, `SECOND`."""

RIVALS = 6

COMPARE = (
    "put the new entry only where the old one is, by one act of the system (UPDATE ... WHERE, findAndModify, put "
    "if absent), or declare Limit.OWNER_NOT_FENCED with the reason."
)
ASK_EACH_TIME = (
    "compare with what the system holds in every `take_ownership` and `owner`, and remember neither: a coordinator "
    "that was forgotten learns by these calls that it has a successor."
)
KEEP = "store generation, nonce and time durably in the system, under the name of pipeline and incarnation."


def entry(number: int, rival: int) -> Owner:
    """What a rival puts in a round: the same generation as the others do, each with its own nonce."""
    return Owner(number + 2, f"round {number}, rival {rival}", 1_700_000_000.0 + rival)


class OwnerTests(KitTests):
    """Copied and restored checkpoints are found by this entry."""

    def test_a_fresh_target_has_no_owner(self, bench: Bench) -> None:
        self.require_owner(bench.committer, None, "on a fresh target")

    def test_an_owner_can_be_taken_before_check_has_made_anything(self, tmp_path: Path) -> None:
        committer = self.make_sink(tmp_path).committer(PipelineId(self.pipeline_name))
        to_do = "make what the owner entry needs in `take_ownership` itself, and read None while it is not there."
        with no_error("`owner` or `take_ownership` before `check`", Clause.OWNER, to_do):
            found, taken = committer.owner(), committer.take_ownership(FIRST, None)
        require(
            found is None and taken,
            f"Before `check`, the owner is {found}, and taking it says {taken}.",
            Clause.OWNER,
            to_do,
        )
        self.require_owner(committer, FIRST, "after it was taken before `check`")
        committer.close()

    def test_an_owner_survives_the_process_that_put_it(self, bench: Bench) -> None:
        sink = self.made_portable(bench)
        ask(sink, bench.pipeline, "take_ownership", FIRST, None, deadline_s=self.deadline_s)
        self.require_owner(bench.committer, FIRST, "after another process took ownership")

    def test_an_owner_is_replaced_by_whoever_knows_it(self, bench: Bench) -> None:
        self.take(bench.committer, FIRST, None)
        self.take(bench.fresh_committer(), SECOND, FIRST)
        self.require_owner(bench.committer, SECOND, "after the second coordinator replaced the first")

    def test_an_owner_is_not_replaced_by_whoever_does_not_know_it(self, bench: Bench) -> None:
        self.take(bench.committer, FIRST, None)
        self.take(bench.committer, SECOND, FIRST)
        for before in (None, FIRST):
            taken = bench.fresh_committer().take_ownership(COPY, before)
            if Limit.OWNER_NOT_FENCED in bench.sink.limits:
                self.require_owner(bench.committer, COPY if taken else SECOND, f"after an attempt that said {taken}")
                self.take(bench.committer, SECOND, COPY if taken else SECOND)
                continue
            require(
                not taken,
                f"The sink holds {SECOND}, and a coordinator that expected {before} was told that it took ownership.",
                Clause.OWNER,
                COMPARE,
            )
            self.require_owner(bench.committer, SECOND, "after an attempt that expected another entry")

    def test_an_owner_that_is_not_there_is_not_replaced(self, bench: Bench) -> None:
        taken = bench.committer.take_ownership(SECOND, FIRST)
        if Limit.OWNER_NOT_FENCED not in bench.sink.limits:
            require(
                not taken,
                f"The sink holds no entry, and a coordinator that expected {FIRST} was told that it took ownership.",
                Clause.OWNER,
                "return False: a target without the entry that was seen before has been emptied, or is another.",
            )
        self.require_owner(bench.committer, SECOND if taken else None, f"after an attempt that said {taken}")

    def test_of_two_coordinators_that_saw_the_same_owner_one_is_refused(self, bench: Bench) -> None:
        self.take(bench.committer, FIRST, None)
        taken = {owner: bench.fresh_committer().take_ownership(owner, FIRST) for owner in (SECOND, COPY)}
        fenced = Limit.OWNER_NOT_FENCED not in bench.sink.limits
        require(
            taken[SECOND] and not (fenced and taken[COPY]),
            f"Two coordinators replaced {FIRST} one after the other, and were told {list(taken.values())}.",
            Clause.OWNER,
            COMPARE,
        )
        self.require_owner(bench.committer, COPY if taken[COPY] else SECOND, "after two attempts")

    def test_of_many_coordinators_at_one_moment_one_takes_ownership(self, bench: Bench) -> None:
        self.take(bench.committer, FIRST, None)
        committers = [bench.fresh_committer() for _ in range(RIVALS)]
        for committer in committers:  # each has its connection: what is still to be opened spreads the calls in time
            self.require_owner(committer, FIRST, "before the race")
        held: list[Owner | None] = []

        def rival(place: int) -> Callable[[int], bool]:
            return lambda number: committers[place].take_ownership(entry(number, place), held[number])

        answers = race(
            [rival(place) for place in range(RIVALS)],
            self.race_rounds,
            self.deadline_s,
            between=lambda number: held.append(bench.committer.owner()),
        )
        entries = [*held[1:], bench.committer.owner()]
        for number, (told, found) in enumerate(zip(answers, entries, strict=False)):
            takers = [entry(number, place) for place, answer in enumerate(told) if answer is True]
            require(
                bool(takers) and (len(takers) == 1 or Limit.OWNER_NOT_FENCED in bench.sink.limits),
                f"{RIVALS} coordinators replaced the same entry at one moment, and in round {number + 1} of "
                f"{self.race_rounds} {len(takers)} were told that they did: {told}.",
                Clause.OWNER,
                COMPARE,
            )
            require(
                found in takers,
                f"In round {number + 1} of {self.race_rounds} {takers} took ownership, and the owner is {found}.",
                Clause.OWNER,
                COMPARE,
            )
        require(
            len(held) == self.race_rounds,
            f"The race of {self.race_rounds} rounds has ended after {len(held)}: {answers[len(held) - 1]}.",
            Clause.DEADLINE,
            "give every call to the system a timeout, and turn its errors into TransientError.",
        )

    @pytest.mark.parametrize("expected", STRANGERS.values(), ids=STRANGERS)
    def test_an_owner_that_differs_in_one_field_is_not_replaced(self, bench: Bench, expected: Owner) -> None:
        if Limit.OWNER_NOT_FENCED in bench.sink.limits:
            pytest.skip("OWNER_NOT_FENCED: the sink compares nothing")
        self.take(bench.committer, SECOND, None)
        taken = bench.fresh_committer().take_ownership(THIRD, expected)
        require(
            taken is False,
            f"The sink holds {SECOND}, and a coordinator that expected {expected} was told {taken!r}.",
            Clause.OWNER,
            "compare generation and nonce, both: two copies of a checkpoint have the same generation.",
        )
        self.require_owner(bench.committer, SECOND, f"after an attempt that expected {expected}")

    def test_an_older_generation_with_a_later_clock_replaces_nothing(self, bench: Bench) -> None:
        if Limit.OWNER_NOT_FENCED in bench.sink.limits:
            pytest.skip("OWNER_NOT_FENCED: the sink compares nothing")
        self.take(bench.committer, SECOND, None)
        self.take(bench.committer, THIRD, SECOND)
        late = replace(SECOND, nonce="nonce-of-another", since=THIRD.since + 3600)
        for before in (FIRST, SECOND):
            taken = bench.fresh_committer().take_ownership(late, before)
            require(
                taken is False,
                f"The sink holds {THIRD}, and a coordinator with {late} that expected {before} was told {taken!r}.",
                Clause.OWNER,
                "compare with the entry that is expected, never by `since`: it is a clock, and for people.",
            )
        self.require_owner(bench.committer, THIRD, "after attempts of an older generation with a later clock")

    def test_taking_what_is_held_already_succeeds(self, bench: Bench) -> None:
        for _ in range(2):
            self.take(bench.committer, FIRST, None)
        self.take(bench.committer, SECOND, FIRST)
        self.take(bench.fresh_committer(), SECOND, FIRST)
        self.require_owner(bench.committer, SECOND, "after the same entry was put twice")

    def test_a_committer_that_was_the_owner_sees_its_successor(self, bench: Bench) -> None:
        old, new = bench.fresh_committer(), bench.fresh_committer()
        self.take(old, FIRST, None)
        self.take(old, SECOND, FIRST)
        self.take(old, SECOND, SECOND)
        self.require_owner(old, SECOND, "after it took ownership")
        self.take(new, THIRD, SECOND)
        found = old.owner()
        told = f"The committer that had put {SECOND}, which {THIRD} has replaced since,"
        require(found == THIRD, f"{told} says that the owner is {found}.", Clause.OWNER, ASK_EACH_TIME)
        if Limit.OWNER_NOT_FENCED in bench.sink.limits:
            return
        for before in (SECOND, FIRST):
            taken = old.take_ownership(SECOND, before)
            asked = f"put {SECOND} in the place of {before}, and was told {taken!r}"
            require(taken is False, f"{told} {asked}.", Clause.OWNER, ASK_EACH_TIME)
            self.require_owner(new, THIRD, "after a committer that was the owner asked again")

    def test_the_holder_renews_its_entry_with_a_later_time(self, bench: Bench) -> None:
        held: Owner | None = None
        for owner in (FIRST, replace(FIRST, since=FIRST.since + 3600.125), SECOND):
            self.take(bench.fresh_committer(), owner, held)
            self.require_owner(bench.committer, owner, "after the holder put its entry again, or a successor its own,")
            held = owner

    def test_each_pipeline_and_incarnation_has_an_owner_of_its_own(self, bench: Bench) -> None:
        name = bench.pipeline.name
        long = FULL.format(name)
        others = [PipelineId(f"{name}-2"), PipelineId(name, 11), PipelineId(name, 2), PipelineId(f"{name}.Job")]
        others += [PipelineId(f"{name}.job"), PipelineId(f"{long}1"), PipelineId(f"{long}2")]
        self.take(bench.committer, FIRST, None)
        for number, other in enumerate(others, 2):
            committer = bench.committer_of(pipeline=other)
            self.require_owner(committer, None, f"for {other}, while {bench.pipeline} has one,")
            self.take(committer, Owner(number, f"nonce of {other}", 1.0), None)
        self.require_owner(bench.committer, FIRST, "after other pipelines and incarnations took theirs")

    def test_a_commit_and_a_sweep_leave_the_owner_alone(self, bench: Bench) -> None:
        self.take(bench.committer, FIRST, None)
        branch = bench.committed(0)
        bench.prepare(1)
        bench.sweep()
        bench.committer.released([branch.committable], 0)
        self.require_owner(bench.committer, FIRST, "after a commit, a sweep and a release")

    def take(self, committer: Committer, owner: Owner, before: Owner | None) -> None:
        """Take ownership, which must succeed."""
        with no_error("`take_ownership`", Clause.OWNER, KEEP):
            taken = committer.take_ownership(owner, before)
        require(
            taken is True,
            f"A coordinator that knows the entry {before} put {owner}, and was told {taken!r}.",
            Clause.OWNER,
            "return True when the entry stood as expected, or was this very one already (a reply may be lost).",
        )

    def require_owner(self, committer: Committer, owner: Owner | None, when: str) -> None:
        """The sink holds this entry, whole."""
        with no_error("`owner`", Clause.OWNER, KEEP):
            found = committer.owner()
        require(found == owner, f"{when[0].upper()}{when[1:]} the owner is {found}, not {owner}.", Clause.OWNER, KEEP)
