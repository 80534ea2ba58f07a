"""What an error of PostgreSQL means for the epoch: a row that must be repaired, a wait, a setting.

Who is to blame follows from the SQLSTATE (`sqlstates`). Finds line and column of the row that COPY refused in the
error's context.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from tpc.errors import ConfigurationError, DataError, HistoryMismatchError, TpcError, TransientError
from tpc.handles import Handle
from tpc.sinks.postgres.connection import certificate_complaint
from tpc.sinks.postgres.holders import branches_of, remedy_for_holders
from tpc.sinks.postgres.sqlstates import Blame, blame, raised_on_purpose

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

MISSING_GID = "42704"
BUSY_GID = "55000"
_CANCELLED = "57014"
_OUT_OF_NUMBERS = "54000"
_NO_SLOT = "53200"
_READ_ONLY = "25006"
_IDLE, _TOO_LONG = "25P03", "25P04"
_DAMAGED = ("XX001", "XX002")
_NO_DATABASE = re.compile(r'FATAL:\s+database "(.*)" does not exist')
"""libpq gives no SQLSTATE for a login that fails. In another language of the server the general words are said."""
_TLS = re.compile(
    r"(?P<name>server certificate for .* does not match host name)"
    r"|(?P<absent>root certificate file .* does not exist)"
    r"|(?P<no_tls>server does not support SSL)"
    r"|(?P<other>SSL error|certificate verify failed|SSL SYSCALL|could not load|could not read root certificate)"
)
"""What libpq says of TLS; these errors have no SQLSTATE either. libpq is not translated in psycopg's binaries."""
_TLS_REMEDIES = {
    "name": "let host= of the dsn be a name that the certificate carries, or have one issued for this name.",
    "absent": "let sslrootcert= name the file of the authority's certificate, on every machine that runs the pipeline.",
    "no_tls": "turn on TLS on the server (ssl = on), or correct host and port of the dsn.",
    "other": "see that sslrootcert= holds the certificate of the authority that signed the server's, that the server's"
    " has not expired, and that sslcert= and sslkey=, if the server asks for them, can be read.",
}
_HINTS = {
    _NO_SLOT: "raise max_prepared_transactions if the server says so; then restart: the epoch is repeated whole.",
    _IDLE: "ALTER ROLE ... SET idle_in_transaction_session_timeout = 0 for the sink's role, since a branch is idle"
    " between two batches of rows; then restart.",
    _TOO_LONG: "ALTER ROLE ... SET transaction_timeout = 0 for the sink's role, since a branch is one transaction;"
    " then restart.",
    _OUT_OF_NUMBERS: "the server has to freeze old transactions first: VACUUM the database that the message names, when"
    " what is prepared and forgotten (pg_prepared_xacts) has ended; then restart.",
    **dict.fromkeys(_DAMAGED, "the server finds its own data damaged: REINDEX, or restore it; then restart."),
    _READ_ONLY: "the server is a standby or read-only: let the dsn name the primary (target_session_attrs=read-write).",
}
_REFUSAL_REMEDIES = {
    **_HINTS,
    _CANCELLED: "if statement_timeout of the role, the database or the server is below a few seconds, raise it for the"
    " sink's role (ALTER ROLE ... SET statement_timeout); else start again when the server has less to do.",
}
_BLAMED = {
    Blame.LOCK: "somebody else holds a lock on the table or on one of the sink's own: pg_locks and pg_prepared_xacts"
    " tell who; start again when it is released.",
    Blame.MOMENT: "start again; if it comes back, the server's own log says more.",
    Blame.SETTING: "give the role what the message asks for.",
    Blame.ROW: "correct the server's side as the message says.",
}
"""What to do about a refusal before the first epoch."""


def is_row_refused(error: psycopg.Error) -> bool:
    """Whether a row is to blame."""
    return blame(error) is Blame.ROW


def is_locked(error: psycopg.Error) -> bool:
    """Whether another transaction holds what this one waited for."""
    return blame(error) is Blame.LOCK


def said(error: psycopg.Error) -> str:
    """The server's words on one line, with the SQLSTATE if it gave one. Holds row values, never a password."""
    words = error.diag.message_primary or str(error)
    parts = [words, error.diag.message_detail or "", error.diag.message_hint or ""]
    text = "; ".join(" ".join(part.split()) for part in parts if part)
    return f"{text} (SQLSTATE {error.sqlstate})" if error.sqlstate else text


def refused_by_server(error: psycopg.Error, sink: PostgresSink) -> ConfigurationError:
    """What stands between a sink and its server before the first epoch. May ask the server for its certificate."""
    words = said(error)
    if error.sqlstate is not None:
        what, remedy = f"PostgreSQL refuses: {words}", _REFUSAL_REMEDIES.get(error.sqlstate) or _BLAMED[blame(error)]
    elif (told := _TLS.search(words)) is not None:
        why = certificate_complaint(sink.dsn) if told["other"] else None
        what = f"there is no TLS with the PostgreSQL server: {f'{why}: ' if why else ''}{words}"
        remedy = next(remedy for name, remedy in _TLS_REMEDIES.items() if told[name])
    elif missing := _NO_DATABASE.search(words):
        what = f"PostgreSQL has no database {missing[1]!r}, it does not exist"
        remedy = "create it (CREATE DATABASE), or correct the database in the dsn (without one it is the user's name)."
    elif "FATAL" in words:  # the server answered
        what = f"PostgreSQL does not accept the login: {words}"
        remedy = "check user, password and database of the dsn, and pg_hba.conf."
    else:
        what = f"PostgreSQL cannot be reached: {words}"
        remedy = "start the server, or correct host and port of the dsn."
    return ConfigurationError(what, sink=sink.name, remedy=remedy)


def question_failed(error: psycopg.Error, what: str, pipeline: str, sink: str) -> TpcError:
    """What keeps the driver from an answer: a right that was taken away, which no waiting brings back, or a moment."""
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return ConfigurationError(
            f"{what}, the role lacks a right: {said(error)}",
            pipeline=pipeline,
            sink=sink,
            remedy="grant it (the sink's page names all rights), or connect as the role that ran before; restart.",
        )
    return TransientError(f"{what}: {said(error)}", pipeline=pipeline, sink=sink)


def row_refused(error: psycopg.Error, handle: Handle, column: str | None, key: str | None) -> DataError:
    """The `DataError` of the first refused row."""
    where = f", column {column!r}" if column else ""
    row = f", row {key}" if key else ""
    return DataError(
        f"PostgreSQL refuses a row{where}{row}: {said(error)}",
        column=column,
        key=key,
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
    )


def marked_before(error: psycopg.Error, handle: Handle) -> HistoryMismatchError:
    """The branch's marker is there: its name was used before, which no log that belongs to this database allows."""
    return HistoryMismatchError(
        f"PostgreSQL shows branch {handle} as committed already: {said(error)}",
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
        remedy="find out whether the checkpoint or log was deleted or restored; a new history needs "
        "a new name (it writes everything again).",
    )


def column_altered(column: str, arrow: object, sql: str, remedy: str, handle: Handle) -> ConfigurationError:
    """A column was altered since `check`, into a type that would refuse or change the rows' values."""
    return ConfigurationError(
        f"column {column!r} has become {sql} and its values come as {arrow}, which would be refused or changed;"
        " nothing of the epoch is committed",
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
        remedy=f"{remedy} Then restart.",
    )


def columns_changed_meanwhile(columns: Sequence[str], handle: Handle) -> TransientError:
    """Columns were altered while the pipeline ran; the next start checks them and makes its staging table of them."""
    return TransientError(
        f"columns {', '.join(columns)} were altered while the pipeline ran; nothing of the epoch is committed",
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
        remedy="restart: the columns are checked again, and the epoch is repeated whole.",
    )


def locked(error: psycopg.Error, handle: Handle, holders: Sequence[str], row: str | None) -> TransientError:
    """The wait for a lock was given up; `holders` are the prepared transactions that hold locks on the table."""
    held = f"; prepared transactions hold locks on the table: {', '.join(holders)}" if holders else ""
    remedy = "restart: the epoch's leftovers are swept and it is repeated whole."
    if handle.pipeline in branches_of(holders)[0]:
        remedy += (
            " If it comes back with branches of the same epoch: one unique key is in two partitions of it, make the"
            " rows distinct by key first."
        )
    remedy = f"{remedy} {remedy_for_holders(holders, handle.pipeline)}".rstrip()
    return TransientError(
        f"waited in vain for {f'row {row}, which' if row else 'what'} another transaction has locked{held}:"
        f" {said(error)}",
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
        remedy=remedy,
        holders=list(holders),
    )


def failed(error: psycopg.Error, doing: str, handle: Handle, sink: PostgresSink) -> TpcError:
    """Any other error while a branch was written or prepared."""
    where: dict[str, Any] = {"pipeline": str(handle.pipeline), "epoch": handle.epoch, "sink": handle.sink}
    state = error.sqlstate or ""
    if state == _CANCELLED and not raised_on_purpose(error):
        return TransientError(
            f"PostgreSQL ended a statement {doing}, for which the sink allows timeout_s={sink.timeout_s:g} s:"
            f" {said(error)}",
            remedy=f"if it comes back: raise timeout_s of sink {handle.sink}, write fewer rows an epoch, or find out"
            " what makes the statement slow (a trigger, an index, a foreign key without one); then restart.",
            **where,
        )
    if blame(error) is Blame.SETTING:
        return ConfigurationError(
            f"PostgreSQL does not let this sink go on {doing}: {said(error)}",
            remedy="correct the server's side as it says (somebody may have changed the table), then restart.",
            **where,
        )
    return TransientError(f"PostgreSQL failed {doing}: {said(error)}", remedy=_HINTS.get(state), **where)


def not_undone(error: psycopg.Error, handle: Handle) -> TransientError:
    """Somebody else is just ending the branch."""
    return TransientError(
        f"branch {handle} is being finished by somebody else: {said(error)}",
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
    )


def copy_line(error: psycopg.Error, table: str) -> tuple[int, str] | None:
    """The line that COPY into `table` was at, and the rest of that context; None if the error tells no line."""
    context = re.search(rf"^COPY {re.escape(table)}, \D*(\d+)(.*)$", error.diag.context or "", re.MULTILINE)
    return (int(context[1]), context[2]) if context else None


def refused_column(error: psycopg.Error, rest: str, columns: Sequence[str]) -> str | None:
    """The column that the error names, in the rest of COPY's context or in its own field."""
    named = [c for c in columns if re.match(rf", \S+ {re.escape(c)}\s*(?:[:,]|$)", rest)]
    return max(named, key=len, default=error.diag.column_name)


def detail_values(error: psycopg.Error) -> tuple[list[str], str] | None:
    """Columns and values of a detail like `Key (origin, hour)=(JFK, 5) already exists.`"""
    detail = re.search(r"\((.*?)\)=\((.*)\)", error.diag.message_detail or "")
    return ([name.strip().strip('"') for name in detail[1].split(",")], detail[2]) if detail else None
