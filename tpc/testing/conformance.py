"""The kit as a sink's author sees it: one class to derive from."""

from __future__ import annotations

from typing import Any

from tpc.testing.abort import AbortTests
from tpc.testing.commit import CommitTests
from tpc.testing.consumers import ConsumerTests
from tpc.testing.data import DataTests
from tpc.testing.deaths import DeathTests
from tpc.testing.disasters import DisasterTests
from tpc.testing.faults import FaultTests
from tpc.testing.giving_up import GiveUpTests, OvertakenTests
from tpc.testing.in_doubt import InDoubtTests, SweepTests
from tpc.testing.markers import MarkerTests
from tpc.testing.names import NamesTests
from tpc.testing.numbers import NumberTests
from tpc.testing.others import OthersTests
from tpc.testing.owner import OwnerTests
from tpc.testing.portability import PortabilityTests
from tpc.testing.prepare import PrepareTests
from tpc.testing.replies import ReplyTests
from tpc.testing.resources import ResourceTests
from tpc.testing.secrecy import SecrecyTests
from tpc.testing.sizes import SizeTests
from tpc.testing.steps import StepTests
from tpc.testing.systems import SystemTests
from tpc.testing.targets import TargetTests
from tpc.testing.types import TypeTests
from tpc.testing.unique import UniqueTests
from tpc.testing.validators import ValidatorTests


class SinkConformance(
    PrepareTests,
    DataTests,
    TypeTests,
    UniqueTests,
    ValidatorTests,
    CommitTests,
    StepTests,
    ConsumerTests,
    AbortTests,
    GiveUpTests,
    OvertakenTests,
    InDoubtTests,
    SweepTests,
    MarkerTests,
    OwnerTests,
    NamesTests,
    NumberTests,
    OthersTests,
    FaultTests,
    ReplyTests,
    SizeTests,
    DisasterTests,
    DeathTests,
    SystemTests,
    TargetTests,
    PortabilityTests,
    ResourceTests,
    SecrecyTests,
):
    """Everything a sink must survive. Derive a test class from it, write the hooks, run pytest:

        class TestMySink(SinkConformance):
            deadline_s = 5.0                                      # no call may take longer in an outage
            secrets = ("s3cret",)                                 # or: has_no_secrets = "why"

            @pytest.fixture(autouse=True)
            def server(self, my_server):                          # fixtures reach the hooks like this
                self.table = my_server.fresh_table()

            def make_sink(self, tmp_path, name="a"):              # a target for this test alone;
                return MySink(self.table, name=name, timeout_s=2)  # the same one for another name

            def visible_rows(self, sink):                         # what readers see, as dicts
                return my_server.query(f"SELECT id, value, amount FROM {self.table}")

            def leftovers(self, sink):                            # what is staged, prepared or open
                return my_server.query("SELECT gid FROM pg_prepared_xacts")

            @contextmanager
            def outage(self, sink):                               # or: cannot_cut = "why"
                with my_server.stopped():
                    yield

            def bad_batch(self):                                  # or: takes_every_row = "why"
                return pyarrow.RecordBatch.from_pylist([{"id": None}], schema=self.schema)

    `make_sink` may be called several times in a test; fixtures run before it.
    Put the class into a module that another process can import: sinks are pickled to processes that are really killed.

    What else can be told is in `tpc.testing.hooks`: `schema` and `row` (other columns), `keyed` and `merged` (merges),
    `settle_s` (answers run ahead of readers), `one_act` (an epoch is published at once), `large_branch_rows`,
    `forget_markers`, `restore_backup`, `consume`.

    No test can be replaced or left out. What the system cannot do is declared in `Sink.limits`, with the reason for
    users; the kit then holds the sink to the weaker promise. A hook that cannot be written is declared with a reason,
    and its tests are shown as skipped with that reason. Each failure says what is wrong, which promise of `tpc/sink.py`
    it breaks, and what to do.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        replaced = [name for name in vars(cls) if name.startswith("test_") and hasattr(SinkConformance, name)]
        if replaced:
            raise TypeError(
                f"{cls.__name__} replaces tests of the kit ({', '.join(replaced)}). They are not optional: declare "
                "what the system cannot do in `Sink.limits`, and give tests of your own other names."
            )
