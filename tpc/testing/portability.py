"""What travels between processes: sinks, committables and errors; what stays the same: identity and check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow
import pytest

from tpc.errors import ConfigurationError, TpcError
from tpc.handles import PipelineId
from tpc.sink import CheckContext, Committable
from tpc.testing.bench import PARTITIONS, Bench
from tpc.testing.deadlines import at_once
from tpc.testing.faults import FaultTests
from tpc.testing.hooks import OPTIONAL, is_reason
from tpc.testing.kit_tests import KitTests
from tpc.testing.processes import ask
from tpc.testing.requirements import Clause, no_error, require

COMMITTABLE_BYTES = 1_000
"""A committable's JSON is in the intent of every epoch; 'a few hundred bytes', says the contract."""

AT_ONCE = 6
"""How many sinks of one kind a pipeline may have in this kit's eyes; their checks run side by side."""


OTHER_COLUMNS = ("one more", "one less", "one more, and the target has it")
KEEP = (
    "leave what is staged where it is, whatever columns the rows have now: an epoch that is decided is committed after "
    "the next start, and that begins with `check`."
)


class PortabilityTests(KitTests):
    """Executors, drivers and recoveries are different processes."""

    def test_a_sink_describes_itself_in_a_mapping_of_texts(self, bench: Bench) -> None:
        described: object = bench.sink.describe()
        require(
            isinstance(described, Mapping)
            and all(isinstance(text, str) for pair in described.items() for text in pair),
            f"`describe` returned {described!r}.",
            Clause.PORTABLE,
            "return a mapping of names to texts, {'table': 'orders'} say: target and mode, for people.",
        )

    def test_what_the_driver_hints_is_small_json(self, bench: Bench) -> None:
        hint: object = bench.committer.hint()
        try:
            same = json.loads(json.dumps(hint)) == hint and isinstance(hint, dict)
        except TypeError:
            same = False
        require(
            same,
            f"`hint` returned {hint!r}.",
            Clause.PORTABLE,
            "return a dict that JSON gives back as it was: it goes to every writer of the epoch.",
        )

    def test_a_sink_survives_pickling(self, bench: Bench) -> None:
        again = self.made_portable(bench)
        same = (again.name, again.kind, dict(again.describe()), dict(again.limits))
        require(
            same == (bench.sink.name, bench.sink.kind, dict(bench.sink.describe()), dict(bench.sink.limits)),
            f"After pickling, the sink describes itself as {same}.",
            Clause.PORTABLE,
            "keep settings only in the sink.",
        )
        branch = bench.prepare()
        bench.commit(branch, committer=again.committer(bench.pipeline))
        bench.require_visible(
            branch, after="a commit by a pickled sink", clause=Clause.PORTABLE, to_do="keep all settings in the sink."
        )

    def test_a_used_sink_survives_pickling(self, bench: Bench) -> None:
        bench.committed()
        self.made_portable(bench)

    def test_a_committable_is_small_json_and_listed_under_its_resource(self, bench: Bench) -> None:
        handle = bench.handle(0)
        writer = bench.writer(handle)
        writer.write(bench.batch(bench.rows(3)))
        committable = bench.branch(writer.prepare(), []).committable
        with no_error("writing a committable as JSON", Clause.PORTABLE, "put text and numbers only into `data`."):
            text = json.dumps(committable.to_json(), allow_nan=False)
        require(
            Committable.from_json(json.loads(text)) == committable,
            f"A committable reads differently after JSON: {text}",
            Clause.PORTABLE,
            "put only JSON into `data`: lists instead of tuples, text as keys.",
        )
        require(
            len(text) <= COMMITTABLE_BYTES,
            f"A committable has {len(text)} bytes; all of an epoch's are in one record.",
            Clause.PORTABLE,
            "keep names and numbers in the committable, and the rows in the system.",
        )
        require(
            (committable.handle, committable.rows) == (handle, 3) and committable.size_bytes >= 0,
            f"Three rows were written for {handle}, and the committable says {text}",
            Clause.PORTABLE,
            "hand back the writer's handle, and count the rows.",
        )
        require(
            committable.resource in bench.listed(),
            f"The committable's resource {committable.resource} is not what `in_doubt` lists: {bench.listed()}.",
            Clause.LISTING,
            "use the name under which the system itself lists the branch.",
        )

    def test_identity_is_the_same_for_every_committer_and_process(self, bench: Bench) -> None:
        sink = self.made_portable(bench)
        told = {
            "the first committer": bench.committer.identity(),
            "a new committer": bench.fresh_committer().identity(),
            "another process": ask(sink, bench.pipeline, "identity", deadline_s=self.deadline_s),
        }
        bench.committed()
        told["the first committer after a commit"] = bench.committer.identity()
        require(
            len(set(told.values())) == 1 and all(told.values()),
            f"The sink's identity is not stable: {told}.",
            Clause.CHECK,
            "take the identity from the system (a cluster id, a stored uuid), not from the process or the settings.",
        )

    def test_check_may_be_repeated(self, bench: Bench) -> None:
        branch = bench.committed()
        later = bench.prepare(1)
        to_do = "create what is missing and leave what is there alone."
        with no_error("A second `check`", Clause.CHECK, to_do):
            bench.committer.check(bench.context())
            bench.fresh_committer().check(bench.context())
        bench.require_visible(branch, after="another `check`", clause=Clause.CHECK, to_do=to_do)
        require(later.resource in bench.listed(), "`check` removed a prepared branch.", Clause.CHECK, to_do)

    @pytest.mark.parametrize("other_columns", OTHER_COLUMNS)
    def test_a_check_of_other_columns_leaves_what_is_prepared(self, bench: Bench, other_columns: str) -> None:
        before, branch = bench.committed(0), bench.prepare(1)
        extra = pyarrow.field("added_later", pyarrow.string())
        if other_columns == "one more, and the target has it":
            bench.needs("add_column", "cannot_add_column")
            with no_error("The hook `add_column`", Clause.HOOKS, "add a column that may be NULL to the target."):
                self.add_column(bench.sink, extra)
        fields = list(self.schema)[:-1] if other_columns == "one less" else [*self.schema, extra]
        for fields_now in (fields, list(self.schema)):  # a start with a changed program, and one with it as it was
            with suppress(ConfigurationError):  # a target without such a column
                context = CheckContext(bench.pipeline, pyarrow.schema(fields_now), PARTITIONS)
                with no_error("A `check` of other columns", Clause.CHECK, KEEP, ConfigurationError):
                    bench.fresh_committer().check(context)
            require(
                branch.resource in bench.listed(),
                f"A `check` of the columns {[field.name for field in fields_now]} removed a prepared branch.",
                Clause.CHECK,
                KEEP,
            )
        bench.commit(branch)
        bench.require_visible(before, branch, after="checks of other columns", clause=Clause.CHECK, to_do=KEEP)

    def test_sinks_checked_at_one_moment_on_a_fresh_target_are_all_taken(self, tmp_path: Path) -> None:
        pipeline = PipelineId(self.pipeline_name)
        context = CheckContext(pipeline, self.schema, PARTITIONS)
        committers = [self.make_sink(tmp_path, f"s{number}").committer(pipeline) for number in range(AT_ONCE)]
        answers = at_once([partial(committer.check, context) for committer in committers], self.deadline_s)
        for committer in committers:
            committer.close()
        refusals = [answer for answer in answers if isinstance(answer, Exception)]
        require(
            not refusals,
            f"Of {AT_ONCE} sinks that were checked at one moment on a fresh target, {len(refusals)} were refused; "
            f"the first said: {refusals[:1]}",
            Clause.CHECK,
            "take it well when somebody else has made the sink's own tables or directories a moment before.",
        )

    def test_a_committer_is_used_again_after_close(self, bench: Bench) -> None:
        branch = bench.prepare()
        to_do = "connect again in the next call; let `close` be called twice."
        with no_error("`close`, or a call after it,", Clause.REUSE, to_do):
            bench.committer.close()
            bench.committer.close()
            listed = bench.listed()
        require(branch.resource in listed, "After `close`, a prepared branch is not listed.", Clause.REUSE, to_do)
        bench.commit(branch)
        bench.require_visible(branch, after="`close` and a commit", clause=Clause.REUSE, to_do=to_do)

    def test_a_commit_of_no_branch_answers_nothing(self, bench: Bench) -> None:
        bench.outcomes()
        bench.require_visible(after="a commit of nothing", clause=Clause.ORDER, to_do="do nothing for no committables.")

    def test_the_error_of_a_refused_row_survives_pickling(self, bench: Bench) -> None:
        bench.needs("bad_batch", "takes_every_row")
        writer = bench.writer(bench.handle(0), expected=[TpcError])
        try:
            writer.write(self.bad_batch())
            writer.prepare()
        except TpcError as error:
            writer.abort()
            FaultTests.require_portable(self, error)  # type: ignore[arg-type]  # every kit has both

    def test_every_limit_has_a_reason(self, bench: Bench) -> None:
        empty = [limit.name for limit, reason in bench.sink.limits.items() if len(reason.split()) < 3]
        require(
            not empty,
            f"Limits without a reason: {', '.join(empty)}.",
            Clause.LIMITS,
            "say in a sentence, for users, why the system cannot do it.",
        )

    def test_every_hook_is_provided_or_declared(self) -> None:
        for hook, reason_in in OPTIONAL.items():
            require(
                self.provides(hook) or is_reason(str(getattr(self, reason_in))),
                f"The kit has neither `{hook}` nor a reason why not.",
                Clause.HOOKS,
                f"write `{hook}`, or set the class attribute `{reason_in}` to a sentence that says why it cannot be.",
            )
