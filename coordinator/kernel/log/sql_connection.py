"""How the log reaches PostgreSQL and SQLite through SQLAlchemy: engines, durability, deadlines, errors in words.

Everything in which the two systems differ stands here, so that `sql` does not ask which one it talks to. User,
password and query of a URL leave this module in no text.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, Table
    from sqlalchemy.sql.dml import ReturningInsert

_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite+pysqlite"}
_UNDEFINED_TABLE = "42P01"
_USER_SHOWN = re.compile(r'\b(user|role) "[^"]*"')
_LENGTH_SHOWN = 300


def parsed(setting: str | Elsewhere) -> URL:
    """The URL with the driver that is used here. Raises `ConfigurationError`, in which the URL is not shown."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    text = resolve(setting)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _bad_url("cannot be read (it is not shown here)") from None
    dialect = url.get_backend_name()
    if dialect not in _DRIVERS:
        raise _bad_url(f"names {dialect!r}, in which no log is kept")
    if dialect != "sqlite" and _is_cut_within_its_password(url, text):
        raise _bad_url("has a password in which an @ is not percent-encoded as %40 (it is not shown here)")
    if dialect == "sqlite" and url.database in (None, "", ":memory:"):
        raise _bad_url("names a database in memory, which is gone with its process")
    return url.set(drivername=_DRIVERS[dialect])


def _is_cut_within_its_password(url: URL, text: str) -> bool:
    """Whether what is read as host, database or query may be the rest of a password, which is then shown."""
    return text.count("@") > (0 if url.username is None else 1)


def _bad_url(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the URL of the log's database {what}",
        remedy="use 'postgresql+psycopg://user:password@host:port/database' or 'sqlite:////absolute/path.db'.",
    )


def shown(setting: str | Elsewhere) -> str:
    """Dialect, host and database, for people; of a URL that cannot be resolved here, the setting's name."""
    try:
        url = parsed(setting)
    except ConfigurationError:
        return repr(setting) if isinstance(setting, Elsewhere) else "a database whose URL cannot be read"
    if url.get_backend_name() == "sqlite":
        return f"sqlite:{url.database}"
    host = url.host or url.query.get("host") or "localhost"
    return f"postgresql://{host}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def is_there(url: URL) -> bool:
    """False for an SQLite file that has not been made: reading would make an empty one."""
    return not _is_file(url) or Path(str(url.database)).exists()


def _is_file(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and not str(url.database).startswith("file:")


def local_files(setting: str | Elsewhere) -> list[Path]:
    """The file of SQLite, unless it is named by a URI; of PostgreSQL none."""
    url = parsed(setting)
    return [Path(str(url.database))] if _is_file(url) else []


def make_engine(setting: str | Elsewhere, timeout_s: float) -> Engine:
    """An engine that connects when it is used. Raises `ConfigurationError`."""
    url = parsed(setting)
    return _sqlite_engine(url, timeout_s) if url.get_backend_name() == "sqlite" else _postgres_engine(url, timeout_s)


def _sqlite_engine(url: URL, timeout_s: float) -> Engine:
    from sqlalchemy import NullPool, create_engine, event

    # No pool: a connection that is kept would go on writing to a file that somebody has replaced.
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": timeout_s}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def make_durable(connection: Any, _: Any) -> None:
        # EXTRA also fsyncs the directory after the journal is unlinked, which is what commits (sqlite.org/pragma.html).
        # The journal mode stays that of the file, DELETE or WAL: both keep what is committed.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")

    return engine


def _postgres_engine(url: URL, timeout_s: float) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.exc import DisconnectionError

    from tpc.coordinator.kernel.log.sql_postgres import connect, start_deadline
    from tpc.support.bounded_connection import is_alive

    settings = {
        "connect_timeout": max(2, round(timeout_s)),
        "application_name": "tpc",
        "prepare_threshold": None,  # poolers in transaction mode lose prepared statements
    }
    engine = create_engine(
        url,
        connect_args=settings,
        isolation_level="READ COMMITTED",  # the touch must see the row that the insert has met
        pool_size=1,
        pool_timeout=timeout_s,
        hide_parameters=True,
    )

    @event.listens_for(engine, "do_connect")
    def open_connection(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
        return connect(timeout_s, *arguments, **parameters)

    @event.listens_for(engine, "checkout")
    def take(connection: Any, _record: Any, _proxy: Any) -> None:
        if not is_alive(connection):
            raise DisconnectionError("the server has closed the connection")  # the pool opens another one
        start_deadline(connection, timeout_s)

    return engine


def begin(connection: Connection, timeout_s: float) -> None:
    """Begin a transaction that is durable when its COMMIT is answered, whatever the user's or database's default."""
    if connection.dialect.name == "postgresql":
        limit = f"{round(1000 * timeout_s)}ms"
        _set_locally(connection, synchronous_commit="on", statement_timeout=limit, lock_timeout=limit)


def before_commit(connection: Connection) -> None:
    """Lift the statement's deadline, which a COMMIT answers with yes and a warning while a replica is waited for."""
    if connection.dialect.name == "postgresql":
        _set_locally(connection, statement_timeout="0")


def _set_locally(connection: Connection, **settings: str) -> None:
    from sqlalchemy import func, select

    connection.execute(select(*[func.set_config(name, value, True) for name, value in settings.items()]))


@cache
def table_named(name: str) -> Table:
    """The log's table; one object a name, so that SQLAlchemy compiles each statement once."""
    from sqlalchemy import BigInteger, Column, DateTime, LargeBinary, MetaData, String, Table, func

    schema, _, table = name.rpartition(".")
    return Table(
        table,
        MetaData(),
        Column("pipeline", String, primary_key=True),
        Column("slot", BigInteger, primary_key=True, autoincrement=False),
        Column("data", LargeBinary, nullable=False),
        Column("put_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
        schema=schema or None,
    )


def insert_if_absent(connection: Connection, table: Table, follows: bool) -> ReturningInsert[Any]:
    """An INSERT that does nothing where the slot is taken, and returns a row where it was not.

    Its values are `its_pipeline`, `its_slot` and `its_data`. If it `follows` another row it does nothing either unless
    that one is there, `slot_before` with exactly `data_before`, and holds it fast until COMMIT (SQLite has one writer).
    """
    from sqlalchemy import bindparam, literal, select
    from sqlalchemy.dialects import postgresql, sqlite

    columns = ("pipeline", "slot", "data")
    kinds = {name: table.c[name].type for name in columns}
    row = select(*[bindparam(f"its_{name}", type_=kinds[name]) for name in columns])
    if follows:
        before = table.alias("before")
        row = row.where(
            before.c.pipeline == bindparam("its_pipeline", type_=kinds["pipeline"]),
            before.c.slot == bindparam("slot_before", type_=kinds["slot"]),
            before.c.data == bindparam("data_before", type_=kinds["data"]),
        ).with_for_update(read=True, of=before)
    else:
        row = row.where(literal(True))  # SQLite's parser wants a WHERE between SELECT and ON CONFLICT
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(table).from_select(columns, row)
    if_absent = insert.on_conflict_do_nothing(index_elements=["pipeline", "slot"])
    returning: ReturningInsert[Any] = if_absent.returning(table.c.slot)
    return returning


def is_missing_table(error: Exception) -> bool:
    """Whether the table is not there yet."""
    cause = getattr(error, "orig", None)
    return getattr(cause, "sqlstate", None) == _UNDEFINED_TABLE or str(cause).startswith("no such table")


def is_failed_disk(error: Exception) -> bool:
    """Whether SQLite could not write or sync its file: trying again in this process proves nothing."""
    return "disk I/O error" in str(getattr(error, "orig", error))


def said(error: Exception) -> str:
    """The system's words on one line, without the statement, its values, and the name of the user."""
    cause = getattr(error, "orig", None) or error
    words = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
    state = getattr(cause, "sqlstate", None)
    text = _USER_SHOWN.sub(r"\1 (not shown)", " ".join(words.split()))[:_LENGTH_SHOWN]
    return f"{text} (SQLSTATE {state})" if state else text
