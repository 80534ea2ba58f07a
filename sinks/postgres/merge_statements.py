"""The statements of a merge: the way of the rows of a staging table into the target.

Rows of one key meet twice: those of one branch in the staging table, and what comes of them meets the row that is
stored. Both are decided by the same expressions, by the order of the column's type and then of its text, so that it
makes no difference where two rows meet. What is compared is in ORDER BY and GROUP BY, which follow the type's own
order wherever its operators are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from tpc.handles import Handle
from tpc.merge import MergeHow, MergePlan
from tpc.sinks.postgres.staging import names_of
from tpc.sinks.postgres.statements import columns, table

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

PIECES = 3
"""Into how many parts a sum is cut that does not fit its column: each then fits if the result does."""

_SMALLEST, _GREATEST = sql.SQL(""), sql.SQL(" DESC")


def merge(
    sink: PostgresSink,
    plan: MergePlan,
    written: Sequence[str],
    handle: Handle,
    *,
    rows: int | None = None,
    reduces: bool = True,
    in_pieces: Collection[str] = (),
) -> sql.Composed:
    """Merge a branch's staged rows into the target, the first `rows` keys in their order (None: all).

    `reduces`: several rows of a key may be staged. `in_pieces`: the columns whose sums, numerics, are added in parts,
    since a sum may not fit its column though what it is added to makes it fit.
    """
    pieces = range(PIECES) if in_pieces else (None,)
    branch = (sink, plan, written, handle, rows)
    made = [_merge(*branch, reduces=reduces, piece=piece, in_pieces=in_pieces) for piece in pieces]
    return sql.SQL("; ").join(made)


def _merge(
    sink: PostgresSink,
    plan: MergePlan,
    written: Sequence[str],
    handle: Handle,
    rows: int | None,
    *,
    reduces: bool,
    piece: int | None,
    in_pieces: Collection[str],
) -> sql.Composed:
    names = names_of(sink, plan, written, handle)
    reduced = _reduced(plan, written) if reduces else None
    chosen = [sql.Identifier(name) if reduced is None else reduced.get(name, sql.Identifier(name)) for name in written]
    if piece is not None:
        added = {name for name, how in plan.columns.items() if how is MergeHow.ADD}
        chosen = [
            one if name not in added else _piece(one, piece) if name in in_pieces else _at_once(one, piece)
            for name, one in zip(written, chosen, strict=True)
        ]
    source = sql.SQL("SELECT {chosen} FROM {rows}").format(
        chosen=sql.SQL(", ").join(chosen),
        rows=sql.SQL("{staging} WHERE {staged}").format(**names)
        if reduced is None
        else sql.SQL("({}) AS reduced").format(_groups(plan, written, names)),
    )
    statement = sql.SQL(
        "INSERT INTO {target} AS stored ({columns}) {source} ORDER BY {key} LIMIT {rows} ON CONFLICT ({key}) DO "
    ).format(
        target=table(sink, sink.table),
        columns=columns(written),
        source=source,
        key=names["key"],
        rows=sql.Literal(rows),
    )
    updates = _updates(plan, written)
    return statement + (sql.SQL("UPDATE SET ") + sql.SQL(", ").join(updates) if updates else sql.SQL("NOTHING"))


# Rows of one branch -------------------------------------------------------------------------------------------------


def _groups(plan: MergePlan, written: Sequence[str], names: Mapping[str, sql.Composable]) -> sql.Composed:
    """One row per key: sums and bounds by column, and the rows that are taken whole."""
    made: list[sql.Composable] = [names["key"]]
    for name, how in plan.columns.items():
        if name not in _of_rows(plan):
            made.append(sql.SQL("{} AS {}").format(_aggregate(name, how), sql.Identifier(name)))
    for taken, alias, direction in _taken(plan):
        ordered = _row_order(plan, taken, direction, sql.SQL("tpc_staged."), with_order=plan.order_by in taken)
        made.append(sql.SQL("(array_agg(tpc_staged ORDER BY {}))[1] AS {}").format(ordered, sql.Identifier(alias)))
    return sql.SQL("SELECT {} FROM {} AS tpc_staged WHERE {} GROUP BY {}").format(
        sql.SQL(", ").join(made), names["staging"], names["staged"], names["key"]
    )


def _reduced(plan: MergePlan, written: Sequence[str]) -> dict[str, sql.Composable]:
    """Where the reduced value of a column is found, for those of rows that are taken whole."""
    return {
        name: sql.SQL("({}).{}").format(sql.Identifier(alias), sql.Identifier(name))
        for taken, alias, _ in _taken(plan)
        for name in taken
        if name in written
    }


def _aggregate(name: str, how: MergeHow) -> sql.Composable:
    column = sql.Identifier(name)
    if how is MergeHow.ADD:
        return sql.SQL("sum({})").format(column)
    direction = _SMALLEST if how is MergeHow.MIN else _GREATEST
    return sql.SQL("(array_agg({c} ORDER BY {order}) FILTER (WHERE {c} IS NOT NULL))[1]").format(
        c=column, order=_value_order(column, direction)
    )


def _piece(value: sql.Composable, piece: int) -> sql.Composed:
    """A third of a sum, rounded to its own digits, and for the last part what is left."""
    share = sql.SQL("trunc(({v}) / {n}, scale({v}))").format(v=value, n=sql.Literal(PIECES))
    if piece < PIECES - 1:
        return share
    return sql.SQL("({}) - {} * {}").format(value, sql.Literal(PIECES - 1), share)


def _at_once(value: sql.Composable, piece: int) -> sql.Composable:
    """A sum that has no parts is added with the first ones of others; afterwards NULL, which changes no sum."""
    return value if piece == 0 else sql.SQL("CASE WHEN false THEN {} END").format(value)


# A row and the one that is stored -----------------------------------------------------------------------------------


def _updates(plan: MergePlan, written: Sequence[str]) -> list[sql.Composed]:
    made = []
    for name in written:
        if name in plan.columns and name not in _of_rows(plan):
            made.append(_update(name, plan.columns[name]))
    for taken, _, direction in _taken(plan):
        if plan.order_by in taken:
            made.append(_update_row(plan, taken, direction))
        elif direction is _GREATEST:  # no order is stored: the later epoch wins
            made += [sql.SQL("{c} = excluded.{c}").format(c=sql.Identifier(name)) for name in taken]
    return made


def _update(name: str, how: MergeHow) -> sql.Composed:
    """`column = value`; a NULL never changes a sum or a bound."""
    if how is MergeHow.ADD:
        expression = "{c} = coalesce(stored.{c} + excluded.{c}, stored.{c}, excluded.{c})"
        return sql.SQL(expression).format(c=sql.Identifier(name))
    direction = _SMALLEST if how is MergeHow.MIN else _GREATEST
    return sql.SQL(
        "{c} = (SELECT v FROM (VALUES (stored.{c}), (excluded.{c})) AS met (v) WHERE v IS NOT NULL"
        " ORDER BY {order} LIMIT 1)"
    ).format(c=sql.Identifier(name), order=_value_order(sql.Identifier("v"), direction))


def _update_row(plan: MergePlan, taken: Sequence[str], direction: sql.SQL) -> sql.Composed:
    """All columns of the row that is taken, from the one or the other."""
    return sql.SQL(
        "({names}) = (SELECT {names} FROM (VALUES ({stored}), ({excluded})) AS met ({names}) ORDER BY {order} LIMIT 1)"
    ).format(
        names=columns(taken),
        stored=sql.SQL(", ").join(sql.SQL("stored.{}").format(sql.Identifier(name)) for name in taken),
        excluded=sql.SQL(", ").join(sql.SQL("excluded.{}").format(sql.Identifier(name)) for name in taken),
        order=_row_order(plan, taken, direction, sql.SQL("met."), with_order=True),
    )


# Orders -------------------------------------------------------------------------------------------------------------


def _taken(plan: MergePlan) -> list[tuple[tuple[str, ...], str, sql.SQL]]:
    """The rows that are taken whole: their columns, a name, and which one in the order is taken."""
    rows = [(plan.replaced, "tpc_newest", _GREATEST), (plan.kept, "tpc_first", _SMALLEST)]
    return [row for row in rows if row[0]]


def _of_rows(plan: MergePlan) -> set[str]:
    return {*plan.replaced, *plan.kept}


def _value_order(value: sql.Composable, direction: sql.SQL) -> sql.Composed:
    """A total order of values: of their type, then, where that takes two for equal, of their texts."""
    return sql.SQL('{v}{by}, {v}::text COLLATE "C"{by}').format(v=value, by=direction)


def _row_order(
    plan: MergePlan, taken: Sequence[str], direction: sql.SQL, of: sql.SQL, *, with_order: bool
) -> sql.Composed:
    """A total order of rows: by the order column, those without one last; then by the texts of all that is taken."""
    by: list[sql.Composed] = []
    if plan.order_by is not None and with_order:
        order = sql.SQL("{}{}").format(of, sql.Identifier(plan.order_by))
        by.append(sql.SQL("{}{} NULLS LAST").format(order, direction))
    texts = [sql.SQL("{}{}::text").format(of, sql.Identifier(name)) for name in taken]
    by.append(sql.SQL('ARRAY[{}] COLLATE "C"{}').format(sql.SQL(", ").join(texts), direction))
    return sql.SQL(", ").join(by)
