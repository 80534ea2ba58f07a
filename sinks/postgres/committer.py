"""The driver's half of the PostgreSQL sink: COMMIT PREPARED, ROLLBACK PREPARED, what is in doubt, markers.

Needs nothing of the process that wrote a branch: a gid is enough. What a missing gid means is in `commit_prepared`,
what is refused before the first epoch in `check`, the statements about owner entries in `owners`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from tpc.errors import ConfigurationError, CorruptionError, TpcError, TransientError
from tpc.findings import Finding
from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.merge import REQUIRED
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner, Verdict
from tpc.sinks.postgres import markers, statements
from tpc.sinks.postgres.catalog import read_required
from tpc.sinks.postgres.check import check, findings, identity
from tpc.sinks.postgres.commit_prepared import abort_one, commit_one, give_up_one
from tpc.sinks.postgres.connection import borrowed, close_idle
from tpc.sinks.postgres.errors import question_failed, said
from tpc.sinks.postgres.markers import PREVIOUS_EPOCH, read_hint, read_last_look, read_newest_marker
from tpc.sinks.postgres.owners import read_all_owners, read_owner, replace_owner
from tpc.sinks.postgres.sessions import end_older_sessions
from tpc.sinks.shared.owner_entry import ANY_PIPELINE

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

logger = logging.getLogger(__name__)

_IN_DOUBT = """
    SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s) ORDER BY prepared
"""
_WAITS_FOR_PREPARED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                   AND 0 = ANY (pg_blocking_pids(pid)))
"""
"""Prepared transactions block as process 0."""


class PostgresCommitter(Committer):
    """Borrows a connection for each call."""

    def __init__(self, sink: PostgresSink, pipeline: PipelineId) -> None:
        self._sink = sink
        self._pipeline = pipeline

    def check(self, context: CheckContext) -> None:
        """Refuse what would fail later; create markers and staging."""
        check(self._sink, context)

    def findings(self, context: CheckContext) -> list[Finding]:
        """For `tpc doctor`."""
        return findings(self._sink, context)

    def identity(self) -> str:
        """System identifier, database, schema and table."""
        return identity(self._sink)

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """One question for all branches and the newest marker.

        Prepared transactions do not expire, but an operator may have rolled one back.
        """
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                marker, there = read_last_look(
                    connection, self._sink, self._pipeline, [one.resource for one in committables]
                )
        except psycopg.errors.UndefinedTable:
            marker, there = None, {}
        except psycopg.Error as error:
            raise self._failed("could not look at the prepared branches", error) from error
        gone = [one for one in committables if one.resource not in there]
        if gone and not _has_gone_back(marker, gone[0]):
            raise TransientError(
                f"{len(gone)} prepared branches have vanished, the first is {gone[0].resource}", sink=self._sink.name
            )
        if stranger := next(filter(None, there.values()), None):
            raise ConfigurationError(
                f"role {stranger!r} has prepared branches that the coordinator, as another role, may not commit",
                sink=self._sink.name,
                remedy="let the dsn name the same role in every process of the pipeline: see its variable in each.",
            )
        return marker

    # Second phase ----------------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """COMMIT PREPARED, one after the other (0.25 ms each, measured); a pipeline of them gained nothing."""
        outcomes: list[Outcome] = []
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                for committable in committables:
                    outcomes.append(commit_one(connection, self._sink, committable))
                    if connection.closed:
                        break
        except psycopg.Error as error:
            outcomes.append(Outcome(Verdict.UNKNOWN, said(error)))
        except ConfigurationError as error:  # the dsn's variable is gone
            outcomes.append(Outcome(Verdict.UNKNOWN, error.what))
        missing = len(committables) - len(outcomes)
        evidence = outcomes[-1].evidence if outcomes else ""
        return [*outcomes, *[Outcome(Verdict.UNKNOWN, f"not asked: {evidence}")] * missing]

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """ROLLBACK PREPARED; gone already is fine."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                for branch in branches:
                    abort_one(connection, branch.resource)
        except psycopg.Error as error:
            raise self._failed("could not undo a prepared branch", error) from error

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """ROLLBACK PREPARED; of a gid that is gone the markers tell."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                return [give_up_one(connection, self._sink, committable) for committable in committables]
        except psycopg.Error as error:
            raise self._failed("could not end a branch that was given up", error) from error

    # What the server shows -------------------------------------------------------------------------------------

    def is_held_up(self) -> bool:
        """Whether a session of this database waits for a lock that a prepared transaction holds."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                row = connection.execute(_WAITS_FOR_PREPARED).fetchone()
        except psycopg.Error as error:
            raise self._failed("could not look for waiting sessions", error) from error
        return bool(row and row[0])

    def in_doubt(self) -> list[InDoubt]:
        """Prepared transactions of this pipeline's name in this database, of every sink and every role.

        A gid that begins like ours and names no branch is left alone.
        """
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                gids = connection.execute(_IN_DOUBT, [self._pipeline.name_prefix]).fetchall()
        except psycopg.Error as error:
            raise self._failed("could not list the prepared branches", error) from error
        found = []
        for (gid,) in gids:
            with suppress(CorruptionError):
                found.append(_in_doubt(gid))
        return found

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """Prepared transactions of every pipeline in this database, those whose name is no branch's left out."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                gids = connection.execute(_IN_DOUBT, [ANY_PIPELINE]).fetchall()
                owners = read_all_owners(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigurationError(
                f"the owner entries of other pipelines cannot be read: {said(error)}",
                sink=self._sink.name,
                remedy=f"GRANT SELECT ON every table {statements.OWNERS} of this database, and USAGE ON its schema.",
            ) from error
        except psycopg.Error as error:
            raise self._failed("could not list the prepared branches of all pipelines", error) from error
        with_owners = []
        for (gid,) in gids:
            with suppress(CorruptionError):
                branch = _in_doubt(gid)
                with_owners.append((branch, owners.get((branch.pipeline, branch.sink))))
        return with_owners

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest row of `tpc_markers`; None also when the table is not there yet."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                return read_newest_marker(connection, self._sink, self._pipeline)
        except psycopg.errors.UndefinedTable:
            return None
        except psycopg.Error as error:
            raise self._failed("could not read the newest marker", error) from error

    def owner(self) -> Owner | None:
        """The row of `tpc_owners`; None also when the table is not there yet."""
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                return read_owner(connection, self._sink, self._pipeline)
        except psycopg.errors.UndefinedTable:
            return None
        except psycopg.Error as error:
            raise self._failed("could not read the owner entry", error) from error

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Compare and set the row of `tpc_owners`; makes the table. Raises `ConfigurationError` when it cannot.

        Ends sessions of writers of older generations, which would hold locks on the rows of the next epoch.
        """
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                taken = replace_owner(connection, self._sink, self._pipeline, owner, before)
                if taken and (ended := end_older_sessions(connection, self._pipeline, owner.generation)):
                    logger.warning("sink %s: ended %d sessions of older generations", self._sink.name, ended)
                return taken
        except psycopg.Error as error:
            raise self._failed("could not write the owner entry", error) from error

    def hint(self) -> JSONObject:
        """What the newest marker, or the base row, shows before the epoch: the evidence for `LOST` later on.

        Of a merge also in which columns the table takes no NULL now (`tpc.merge.REQUIRED`).
        """
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                hint = read_hint(connection, self._sink, self._pipeline)
                if self._sink.merge is not None:
                    regclass = statements.table(self._sink, self._sink.table).as_string(connection)
                    return {**hint, REQUIRED: read_required(connection, regclass)}
                return hint
        except psycopg.errors.UndefinedTable:
            return {PREVIOUS_EPOCH: None}
        except psycopg.Error as error:
            raise self._failed("could not read the newest marker", error) from error

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Prune the markers of earlier epochs, once this one has markers of its own.

        A failure is logged and no more: the epoch is complete, and the next one prunes the same rows.
        """
        if not committables:
            return
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                connection.execute(markers.prune_markers(self._sink, self._pipeline, epoch))
        except psycopg.Error as error:
            logger.warning("sink %s: old markers were not pruned: %s", self._sink.name, said(error))

    def close(self) -> None:
        """Close this process's idle connections to the database."""
        close_idle(self._sink.dsn)

    def _failed(self, what: str, error: psycopg.Error) -> TpcError:
        return question_failed(error, what, str(self._pipeline), self._sink.name)


def _in_doubt(gid: str) -> InDoubt:
    handle = statements.handle_of(gid)
    return InDoubt(gid, handle.pipeline, handle.generation, handle.sink, handle.epoch, only_copy=True)


def _has_gone_back(marker: Marker | None, begun: Committable) -> bool:
    """Whether the database shows less than when the branch was begun: what has vanished went with more."""
    before = begun.data.get(PREVIOUS_EPOCH)
    return before is not None and (marker is None or marker.epoch < before)
