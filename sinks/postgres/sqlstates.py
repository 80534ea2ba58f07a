"""The cause of an error while rows are written, by its SQLSTATE: a row, a setting, a lock, or a passing condition.

The classes are those of https://www.postgresql.org/docs/current/errcodes-appendix.html. A row is to blame where the
same row would be refused again, whatever else is in its epoch: by a constraint, by a limit of the server, by code of
the user's own (a trigger, a function) that raises. No message is read, which the server may translate.
"""

from __future__ import annotations

from enum import Enum

import psycopg


class Blame(Enum):
    """What has to change before the statement can succeed."""

    ROW = "row"
    SETTING = "setting"
    """Table, rights or settings of the server: the same for every row."""
    LOCK = "lock"
    """Another transaction holds what this one waited for."""
    MOMENT = "moment"
    """A connection, a resource, or an unknown cause: trying again may help."""


_LOCKED = frozenset({"55P03", "40P01"})
"""lock_not_available, deadlock_detected."""
_OF_CLASS = {
    Blame.ROW: (
        "09",  # triggered action exception
        "20",  # case not found: a CASE of PL/pgSQL
        "21",  # cardinality violation
        "22",  # data exception
        "23",  # integrity constraint violation
        "27",  # triggered data change violation
        "2F",  # SQL routine exception: a function without RETURN on its way
        "38",  # external routine exception: PL/Python and its like
        "44",  # WITH CHECK OPTION violation
        "54",  # program limit exceeded: too large for an index, nested too deeply
        "P0",  # PL/pgSQL: RAISE, ASSERT
    ),
    Blame.SETTING: (
        "03",  # SQL statement not yet complete
        "0A",  # feature not supported
        "0B",  # invalid transaction initiation
        "0F",  # locator exception
        "0L",  # invalid grantor
        "0P",  # invalid role specification
        "0Z",  # diagnostics exception
        "10",  # XQuery error
        "24",  # invalid cursor state
        "26",  # invalid SQL statement name
        "28",  # invalid authorization specification
        "2B",  # dependent privilege descriptors still exist
        "2D",  # invalid transaction termination: a trigger that commits
        "34",  # invalid cursor name
        "39",  # external routine invocation exception: trigger protocol violated
        "3B",  # savepoint exception
        "3D",  # invalid catalog name
        "3F",  # invalid schema name
        "42",  # syntax error or access rule violation: a column that is gone, a right that was taken away
        "F0",  # configuration file error
    ),
    Blame.MOMENT: (
        "00",  # successful completion
        "01",  # warning
        "02",  # no data
        "08",  # connection exception
        "25",  # invalid transaction state: read only, idle for too long
        "40",  # transaction rollback
        "53",  # insufficient resources
        "55",  # object not in prerequisite state
        "57",  # operator intervention: cancelled, shut down
        "58",  # system error
        "72",  # snapshot failure
        "HV",  # foreign data wrapper error
        "XX",  # internal error
    ),
}
_CLASSES = {name: blame for blame, names in _OF_CLASS.items() for name in names}
_NOT_READY = frozenset({"55000", "55P02", "55P04"})
"""Of class 55: PREPARE TRANSACTION is switched off, no replica identity, an enum value that is too new."""
_WITHOUT_NUMBERS = frozenset({"varsup.c", "multixact.c", "xact.c"})
"""Sources of PostgreSQL that use class 54 for a server that is out of transaction numbers: it takes no row then."""
_RAISING = frozenset({"exec_stmt_raise", "exec_stmt_assert", "PLy_elog_impl", "PLy_output"})
"""Functions of PostgreSQL that raise what code of the user's own asks for (PL/pgSQL, PL/Python). Not translated."""


def blame(error: psycopg.Error) -> Blame:
    """Who is to blame for `error`; an error without a code is the connection's."""
    return blamed(error.sqlstate or "", error.diag.source_file, error.diag.source_function)


def raised_on_purpose(error: psycopg.Error) -> bool:
    """Whether code of the user's own has raised the error, with whatever code it has chosen."""
    return error.diag.source_function in _RAISING


def blamed(sqlstate: str, source_file: str | None = None, source_function: str | None = None) -> Blame:
    """As `blame`, of what an error carries.

    A code that PostgreSQL has not is the user's own, and so is one with which code of the user's raises on purpose;
    but where such code asks for another try, by a code for that, it gets it.
    """
    if not sqlstate:
        return Blame.MOMENT
    if sqlstate in _LOCKED:
        return Blame.LOCK
    by_class = _CLASSES.get(sqlstate[:2], Blame.ROW)
    if by_class is Blame.ROW:
        return Blame.MOMENT if sqlstate.startswith("54") and source_file in _WITHOUT_NUMBERS else Blame.ROW
    if source_function in _RAISING:
        return Blame.MOMENT if sqlstate[:2] in ("08", "40", "53", "57", "58") else Blame.ROW
    return Blame.SETTING if sqlstate in _NOT_READY else by_class
