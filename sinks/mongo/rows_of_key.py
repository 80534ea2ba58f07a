"""Two rows of one key: which of them is taken, and how they are combined, in MongoDB's order and equality.

The same functions decide between two rows of a branch and between a row and the stored document, so that the result
does not depend on how rows are distributed.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping
from typing import Any

from tpc.merge import MergeHow, MergePlan
from tpc.sinks.mongo.values import INT64_MAX, INT64_MIN, comparable

Values = Mapping[str, Any]


def is_taken(new: Values, other: Values, columns: Iterable[str], order: str | None, *, newest: bool) -> bool:
    """Whether the row `new` is taken instead of `other`: the newest one, or the first one.

    The column `order` decides; a row without a value in it ranks last. Between equal rows the bytes of their BSON
    decide, with `columns` in the order of their names. Raises `TypeError` if the orders cannot be compared.
    """
    if order is not None:
        mine, theirs = new.get(order), other.get(order)
        if mine is None or theirs is None:
            if (mine is None) != (theirs is None):
                return theirs is None
        elif comparable(mine) != comparable(theirs):
            return bool(comparable(mine) > comparable(theirs)) is newest
    ours, others = _content(new, columns), _content(other, columns)
    if newest or not ours or not others:
        return ours > others  # a row of NULLs only leaves nothing in a document, so any other row is taken before it
    return ours < others


def _content(row: Values, columns: Iterable[str]) -> bytes:
    import bson

    values = {name: row[name] for name in sorted(columns) if row.get(name) is not None}
    return bson.encode(values) if values else b""


def combined(one: Values, other: Values, plan: MergePlan) -> dict[str, Any]:
    """The combination of two rows of a key. Raises `ValueError` for a sum that has no BSON type."""
    made = {name: _combined(one[name], other[name], how) for name, how in plan.columns.items()}
    for columns, newest in ((plan.replaced, True), (plan.kept, False)):
        order = plan.order_by if columns == plan.replaced or plan.order_by in columns else None
        taken = other if columns and is_taken(other, one, columns, order, newest=newest) else one
        made.update({name: taken[name] for name in columns})
    return {**one, **made}


def _combined(one: Any, other: Any, how: MergeHow) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if how is MergeHow.ADD:
        return _sum(one, other)
    if how is MergeHow.MIN:
        return other if comparable(other) < comparable(one) else one
    if how is MergeHow.MAX:
        return other if comparable(other) > comparable(one) else one
    return one


def _sum(one: Any, other: Any) -> Any:
    from bson.decimal128 import Decimal128, create_decimal128_context

    if isinstance(one, Decimal128):
        with decimal.localcontext(create_decimal128_context()) as context:
            context.traps[decimal.Inexact] = True
            try:
                return Decimal128(one.to_decimal() + other.to_decimal())
            except decimal.DecimalException:
                raise ValueError("a sum of more than 34 digits has no BSON type") from None
    total = one + other
    if isinstance(total, int) and not INT64_MIN <= total <= INT64_MAX:
        raise ValueError(f"the sum {total} does not fit into 64 bits")
    return total
