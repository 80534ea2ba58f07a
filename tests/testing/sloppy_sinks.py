"""More sinks with one defect each, so that every test of the kit rejects at least one: `SLOPPY` says which."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, ClassVar

import pyarrow

from tests.testing.weak_sinks import WeakSink
from tpc.errors import DataError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner, Verdict, Writer
from tpc.testing.directory_disk import OwnerEntries, rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter

SLOPPY: dict[type[DirectorySink], tuple[str, ...]] = {}


def rejected_by(*tests: str) -> Callable[[type], type]:
    """Make a sink of a writer or committer class, and note which tests must reject it."""

    def register(half: type) -> type:
        made: type = half
        if issubclass(half, Committer | Writer):
            attribute = "committer_class" if issubclass(half, Committer) else "writer_class"
            made = type(half.__name__, (DirectorySink,), {attribute: half, "__module__": half.__module__})
        SLOPPY[made] = tests
        return made

    return register


# Prepare ------------------------------------------------------------------------------------------------------


@rejected_by("test_rows_that_are_written_and_not_prepared_are_invisible")
class VisibleWhileWritten(DirectorySink):
    def rows(self) -> list[dict[str, Any]]:
        return super().rows() + [row for path in (self.root / "writing").glob("*") for row in rows_of(path)]


@rejected_by("test_a_large_branch_arrives_whole", "test_many_small_batches_are_one_branch")
class DropsRowsAboveHundred(DirectoryWriter):
    def _write(self, batch: pyarrow.RecordBatch) -> None:
        if self.rows < 100:
            super()._write(batch)


@rejected_by(
    "test_a_writer_aborted_before_prepare_leaves_nothing",
    "test_a_writer_aborted_after_prepare_leaves_nothing",
    "test_a_refused_row_is_a_data_error_and_leaves_nothing",
)
class WriterNeverAborts(DirectoryWriter):
    def abort(self) -> None:
        """Nothing."""


@rejected_by("test_a_refused_row_is_a_data_error_and_leaves_nothing")
class TakesBadRows(DirectoryWriter):
    def write(self, batch: pyarrow.RecordBatch) -> None:
        self._write(batch)
        self.rows += batch.num_rows


@rejected_by("test_the_error_of_a_refused_row_survives_pickling")
class UnpicklableDataError(DirectoryWriter):
    def write(self, batch: pyarrow.RecordBatch) -> None:
        try:
            super().write(batch)
        except DataError as error:
            raise DataError(error.what, batch=threading.Lock()) from error


@rejected_by("test_a_branch_of_one_row_arrives")
class OneRowIsNone(DirectoryWriter):
    def prepare(self) -> Committable | None:
        return super().prepare() if self.rows > 1 else None


@rejected_by("test_columns_are_found_by_their_names")
class RaisesWhatPythonRaises(DirectoryWriter):
    def write(self, batch: pyarrow.RecordBatch) -> None:
        if batch.schema.names[0] != "id":
            raise KeyError("id")
        super().write(batch)


@rejected_by("test_a_committable_is_small_json_and_listed_under_its_resource")
class FatCommittable(DirectoryWriter):
    def prepare(self) -> Committable | None:
        made = super().prepare()
        return None if made is None else replace(made, data={**made.data, "rows": "x" * 1_000})


@rejected_by("test_a_committable_is_small_json_and_listed_under_its_resource")
class ResourceOfAnotherName(DirectoryWriter):
    def prepare(self) -> Committable | None:
        made = super().prepare()
        return None if made is None else replace(made, resource=f"./{made.resource}")


# Commit and abort ---------------------------------------------------------------------------------------------


@rejected_by("test_a_commit_makes_exactly_its_rows_visible", "test_a_commit_takes_a_branch_out_of_doubt")
class LeavesStaging(DirectoryCommitter):
    def _commit(self, committable: Committable) -> Outcome:
        prepared = self.sink.root / "prepared" / committable.resource
        if prepared.exists():
            shutil.copy(prepared, self.sink.root / "writing" / committable.resource)
        return super()._commit(committable)


@rejected_by(
    "test_two_branches_of_an_epoch_commit_in_one_call",
    "test_branches_of_two_epochs_commit_in_one_call",
    "test_a_commit_of_no_branch_answers_nothing",
)
class CommitsTheFirstOnly(DirectoryCommitter):
    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        return [self._outcome(committables[0])] * len(committables)


@rejected_by(
    "test_an_aborted_branch_leaves_nothing",
    "test_abort_takes_what_in_doubt_lists",
    "test_an_abort_takes_a_branch_out_of_doubt",
    "test_an_abort_in_an_outage_is_transient_and_succeeds_after_it",
    "test_a_writer_killed_before_prepare_leaves_nothing_beyond_a_sweep",
    "test_a_writer_that_was_open_during_a_sweep_leaves_nothing_beyond_the_next",
)
class AbortsNothing(DirectoryCommitter):
    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Nothing."""


@rejected_by("test_commits_go_through_while_others_write")
class GivesUpWhenOthersWrite(DirectoryCommitter):
    def _commit(self, committable: Committable) -> Outcome:
        visible = self.sink.root / "visible"
        before = set(visible.iterdir())
        time.sleep(0.1)
        if before != set(visible.iterdir()):
            return Outcome(Verdict.REFUSED, "somebody else has written")
        return super()._commit(committable)


# Listings, markers and owners ---------------------------------------------------------------------------------


@rejected_by("test_a_fresh_target_has_nothing_in_doubt")
class ListsAGhost(DirectoryCommitter):
    def in_doubt(self) -> list[InDoubt]:
        return super().in_doubt() or [InDoubt("ghost", self.pipeline, 1, self.sink.name)]


@rejected_by("test_a_fresh_target_shows_no_marker")
class MarkerFromTheStart(DirectoryCommitter):
    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        return super().newest_marker() or Marker(0, Handle(self.pipeline, 1, self.sink.name, 0, 0, 0))


@rejected_by("test_a_branch_that_is_not_committed_shows_no_marker")
class MarkerAtPrepare(DirectoryCommitter):
    def _newest(self) -> Handle | None:
        return super()._newest() or next(iter(self.undecided(self.pipeline.prefix)), None)


@rejected_by("test_the_marker_names_epoch_and_handle_of_the_newest_commit", "test_another_process_sees_the_marker")
class MarkerOfThisCommitter(DirectoryCommitter):
    newest: Marker | None = None

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        self.newest = Marker(committables[0].handle.epoch, committables[0].handle)
        return super().commit(committables)

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        return self.newest


@rejected_by("test_a_sink_whose_name_looks_alike_is_another")
class MarkerOfLongerNames(DirectoryCommitter):
    def _newest(self) -> Handle | None:
        names = (self.sink.root / "visible").glob(self.pipeline.prefix + "*")
        return max(
            (h for path in names if (h := Handle.parse(path.name)).sink.startswith(self.sink.name)), default=None
        )


@rejected_by("test_the_last_look_tells_the_newest_epoch_with_branches_and_without")
class LastLookOnlyAtBranches(DirectoryCommitter):
    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        return super().verify(committables) if committables else None


@rejected_by("test_forgotten_markers_prove_nothing")
class LostWithoutMarker(WeakSink):
    class Committer(WeakSink.Committer):
        def _outcome_without_file(self, committable: Committable, visible: Any) -> Outcome:
            outcome = super()._outcome_without_file(committable, visible)
            return outcome if outcome.settled else Outcome(Verdict.LOST, "no marker")

    committer_class = Committer


@rejected_by("test_a_fresh_target_has_no_owner")
class OwnerFromTheStart(DirectoryCommitter):
    def owner(self) -> Owner | None:
        return super().owner() or Owner(0, "", 0.0)


@rejected_by("test_an_owner_can_be_taken_before_check_has_made_anything")
class OwnerNeedsCheck(DirectoryCommitter):
    def owner(self) -> Owner | None:
        self._ask("reading the owner", (self.sink.root / "owners").stat)
        return super().owner()


@rejected_by("test_an_owner_survives_the_process_that_put_it")
class OwnerInMemory(DirectoryCommitter):
    owners: ClassVar[dict[Any, Owner]] = {}

    def owner(self) -> Owner | None:
        return self.owners.get((self.sink.root, self.pipeline))

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        if self.owner() in (before, owner):
            self.owners[self.sink.root, self.pipeline] = owner
        return self.owner() == owner


@rejected_by("test_an_owner_is_replaced_by_whoever_knows_it")
class OwnerForEver(DirectoryCommitter):
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        return self.owner() in (None, owner) and super().take_ownership(owner, before)


@rejected_by("test_taking_what_is_held_already_succeeds")
class OwnerTakenOnce(DirectoryCommitter):
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        return self.owner() == before and super().take_ownership(owner, before)


@rejected_by("test_an_owner_that_is_not_there_is_not_replaced")
class OwnerOutOfNothing(DirectoryCommitter):
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        return super().take_ownership(owner, self.owner() and before)


@rejected_by("test_the_holder_renews_its_entry_with_a_later_time")
class OwnerOfTheFirstTime(DirectoryCommitter):
    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        held = self.owner()
        is_holder = held is not None and (held.generation, held.nonce) == (owner.generation, owner.nonce)
        return is_holder or super().take_ownership(owner, before)


@rejected_by("test_the_marker_is_of_the_highest_generation_in_the_newest_epoch")
class MarkerByTheNameOfTheGeneration(DirectoryCommitter):
    def _newest(self) -> Handle | None:
        newest = super()._newest()
        visible = (self.sink.root / "visible").glob(self.pipeline.prefix + "*")
        handles = [handle for path in visible if (handle := Handle.parse(path.name)).sink == self.sink.name]
        of_epoch = [handle for handle in handles if newest is not None and handle.epoch == newest.epoch]
        return max(of_epoch, key=str, default=None)


@rejected_by("test_branches_of_all_pipelines_are_listed_with_their_owners")
class OrphansUnderOurName(DirectoryCommitter):
    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        return [(replace(doubt, pipeline=self.pipeline), owner) for doubt, owner in super().all_in_doubt()]


@rejected_by("test_branches_of_all_pipelines_are_listed_with_their_owners")
class AbortsOrphansWithItsOwn(DirectoryCommitter):
    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        foreign = [one for one in branches if isinstance(one, InDoubt) and one.pipeline != self.pipeline]
        super().abort([*branches, *(self.in_doubt() if foreign else [])])


@rejected_by("test_each_pipeline_and_incarnation_has_an_owner_of_its_own")
class OwnerOfTheName(DirectoryCommitter):
    def _entries(self, pipeline: PipelineId) -> OwnerEntries:
        return super()._entries(PipelineId(pipeline.name))


@rejected_by("test_a_commit_and_a_sweep_leave_the_owner_alone")
class OwnerSwept(DirectoryCommitter):
    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        super().abort(branches)
        shutil.rmtree(self.sink.root / "owners")


# Processes, secrets, outages ----------------------------------------------------------------------------------


@rejected_by("test_a_sink_describes_itself_in_a_mapping_of_texts")
class DescribesItselfInWords(DirectorySink):
    def describe(self) -> Any:
        return [("root", self.root)]


@rejected_by("test_what_the_driver_hints_is_small_json")
class HintsWhatIsNoJson(DirectorySink):
    class Committer(DirectoryCommitter):
        def hint(self) -> Any:
            return {**super().hint(), 7: "a key that is no text"}

    committer_class = Committer


@rejected_by("test_a_sink_survives_pickling")
class NeverPickled(DirectorySink):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.lock = threading.Lock()


@rejected_by("test_a_used_sink_survives_pickling")
class NotPickledOnceUsed(DirectorySink):
    def writer(self, *arguments: Any) -> Any:
        self.connection = threading.Lock()
        return super().writer(*arguments)


@rejected_by("test_identity_is_the_same_for_every_committer_and_process")
class IdentityOfTheProcess(DirectoryCommitter):
    def identity(self) -> str:
        return f"{super().identity()}-{os.getpid()}"


@rejected_by("test_a_committer_is_used_again_after_close")
class ClosedForGood(DirectoryCommitter):
    closed = False

    def close(self) -> None:
        self.closed = True

    def in_doubt(self) -> list[InDoubt]:
        if self.closed:
            raise TransientError("the connection is closed")
        return super().in_doubt()


@rejected_by("test_check_in_an_outage_refuses")
class CheckSeesNothing(DirectoryCommitter):
    def check(self, context: CheckContext) -> None:
        if self.sink.root.is_dir():
            super().check(context)


@rejected_by("test_no_secret_is_in_what_a_sink_says_of_itself")
class PasswordInRepr(DirectorySink):
    def __repr__(self) -> str:
        return f"PasswordInRepr({self.password!r})"


@rejected_by("test_no_secret_is_in_errors_or_logs")
class PasswordInErrors(DirectoryCommitter):
    def _ask(self, doing: str, call: Callable[[], Any]) -> Any:
        return super()._ask(f"{doing} as {self.sink.password}", call)


# Give up ------------------------------------------------------------------------------------------------------


@rejected_by(
    "test_a_given_up_branch_that_is_committed_stays",
    "test_given_up_branches_get_each_an_answer_of_its_own",
)
class GivesUpByRemoving(DirectoryCommitter):
    def _give_up(self, committable: Committable) -> GivenUp:
        (self.sink.root / "visible" / committable.resource).unlink(missing_ok=True)
        return super()._give_up(committable)


@rejected_by(
    "test_a_given_up_branch_that_is_prepared_is_undone",
    "test_a_late_commit_brings_nothing_back_that_was_given_up",
    "test_a_commit_and_a_give_up_at_one_moment_agree",
    "test_after_a_given_up_epoch_the_marker_stays_and_the_next_commits",
    "test_a_give_up_in_an_outage_is_transient_and_succeeds_after_it",
)
class GivesUpInWordsOnly(DirectoryCommitter):
    """Believes whoever asks, and ends nothing."""

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        return [GivenUp.NOT_KNOWN for _ in committables]


@rejected_by("test_a_given_up_branch_that_is_gone_is_not_said_to_be_committed")
class AbsentIsCommitted(DirectoryCommitter):
    def _give_up(self, committable: Committable) -> GivenUp:
        there = (self.sink.root / "prepared" / committable.resource).exists()
        return super()._give_up(committable) if there else GivenUp.COMMITTED


@rejected_by("test_after_a_given_up_epoch_the_marker_stays_and_the_next_commits")
class PrunesByEpoch(DirectoryCommitter):
    """Forgets every epoch below the one that is complete, whoever has a branch in it."""

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        (self.sink.root / "pruned").write_text(str(epoch))

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        newest, pruned = super().newest_marker(since_generation), self.sink.root / "pruned"
        return None if newest and pruned.exists() and newest.epoch < int(pruned.read_text()) else newest


# The steps of a commit ----------------------------------------------------------------------------------------


@rejected_by("test_a_commit_overtaken_at_any_step_changes_nothing_any_more")
class GoesOnRegardless(DirectoryCommitter):
    """What it has read before is written, whatever others have done meanwhile."""

    def _commit(self, committable: Committable) -> Outcome:
        prepared = self.sink.root / "prepared" / committable.resource
        held = prepared.read_bytes() if prepared.exists() else b""
        outcome = super()._commit(committable)
        if held and outcome.verdict is Verdict.ALREADY:
            (self.sink.root / "visible" / f"again-{committable.resource}").write_bytes(held)
        return outcome


# Bookkeeping that was taken away ------------------------------------------------------------------------------


@rejected_by(
    "test_a_first_epoch_whose_bookkeeping_is_gone_is_not_lost",
    "test_a_branch_whose_bookkeeping_is_gone_is_not_lost_beside_a_later_one",
)
class TakesAnEmptyTableForTheFirstStart(DirectoryCommitter):
    """Compares the newest epoch with that before, and never asks whether what stood there is still there."""

    def _shows_what_was(self, committable: Committable) -> bool:
        return True


# Consumers ----------------------------------------------------------------------------------------------------


@rejected_by("test_committed_rows_that_a_consumer_removed_do_not_come_again")
class LooksForItsRows(DirectoryCommitter):
    """Takes a branch whose rows are not in the target for one that is not wholly applied."""

    def _commit(self, committable: Committable) -> Outcome:
        prepared, visible = (self.sink.root / place / committable.resource for place in ("prepared", "visible"))
        kept = self.sink.root / f"kept-{committable.resource}"
        if prepared.exists():
            shutil.copy(prepared, kept)
        outcome = super()._commit(committable)
        if outcome.verdict is Verdict.ALREADY and kept.exists() and not rows_of(visible):
            shutil.copy(kept, visible)
        return outcome


# Processes, systems, names ------------------------------------------------------------------------------------


class KeepsAFileOpen(DirectoryCommitter):
    kept: ClassVar[list[IO[str]]] = []

    def keep_one(self) -> None:
        self.kept.append(Path(os.devnull).open())  # noqa: SIM115  that is the defect


@rejected_by("test_epochs_hold_no_more_than_the_first_few")
class OpensAFileForEachCommit(KeepsAFileOpen):
    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        self.keep_one()
        return super().commit(committables)


@rejected_by("test_calls_in_an_outage_hold_nothing")
class OpensAFileForEachFailure(KeepsAFileOpen):
    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        try:
            return super().newest_marker(since_generation)
        except TransientError:
            self.keep_one()
            raise


@rejected_by("test_what_the_system_removes_by_itself_is_declared")
class LetsMarkersExpire(DirectoryCommitter):
    def _commit(self, committable: Committable) -> Outcome:
        (self.sink.root / "expiring").mkdir(exist_ok=True)
        (self.sink.root / "expiring" / committable.resource).touch()
        return super()._commit(committable)


@rejected_by("test_a_handle_of_the_longest_names_and_largest_numbers_is_taken_whole")
class CutsHandles(DirectoryWriter):
    def path(self, part: str) -> Path:
        return self.sink.root / part / str(self.handle)[:150]
