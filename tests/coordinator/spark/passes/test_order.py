"""Which orders can be asked for. That one is kept is shown on real systems, in `tests/integration/test_order.py`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tpc.coordinator.spark.passes.plan import check_order
from tpc.errors import ConfigurationError


@pytest.mark.parametrize(
    ("order", "partition", "what"),
    [(["number"], [], "without partition_by="), (["nummer"], ["key"], r"\['nummer'\], which are no columns")],
)
def test_an_order_that_cannot_be_kept_is_refused(order: Sequence[str], partition: Sequence[str], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        check_order(order, partition, ["key", "number"])


@pytest.mark.parametrize(("order", "partition"), [([], []), ([], ["key"]), (["number", "key"], ["key"])])
def test_other_orders_and_none_are_taken(order: Sequence[str], partition: Sequence[str]) -> None:
    check_order(order, partition, ["key", "number"])
