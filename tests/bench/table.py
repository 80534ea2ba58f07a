"""When the table of a round has its rows, and whether they are the right ones.

It is asked for the last ids of the round by their key, which is no load: each partition's rows come in their order. All
of it is counted once they are there.
"""

from __future__ import annotations

import threading
import time

import psycopg

from tests.bench.reading import WrongRowsError
from tests.bench.work import REJECTED_EVERY, gain_in_table, wanted_in_table

SAMPLE_S = 0.05
LAST_IDS = 200


class TableRound:
    """One round in one table; `sample` is for a thread of its own."""

    def __init__(self, connection: psycopg.Connection, table: str, first_id: int, rows: int) -> None:
        self.first_at: float | None = None
        """When there was a row."""
        self.all_at: float | None = None
        """When all were there."""
        self._connection = connection
        self._table = table
        self._first_id = first_id
        self._rows = rows
        self._last_at: float | None = None
        self._was_short = False

    def sample(self, ended: threading.Event) -> None:
        """Until the last ids are there."""
        end = self._first_id + self._rows
        ids = [number for number in range(end - LAST_IDS, end) if number % REJECTED_EVERY]
        query = f"SELECT EXISTS (SELECT FROM {self._table}), (SELECT count(*) FROM {self._table} WHERE id = ANY(%s))"
        while self._last_at is None and not ended.wait(SAMPLE_S):
            began = time.time()
            row = self._connection.execute(query, [ids]).fetchone()
            assert row is not None
            if row[0] and self.first_at is None:
                self.first_at = began
            if row[1] == len(ids):
                self._last_at = began

    def has_all(self) -> bool:
        """Whether all rows are there: counted, if the last ones are."""
        if self.all_at is None and self._last_at is not None:
            began = time.time()
            row = self._connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()
            assert row is not None
            if row[0] < wanted_in_table(self._rows):
                self._was_short = True
            else:
                self.all_at = began if self._was_short else self._last_at
        return self.all_at is not None

    def require_right(self) -> None:
        """Raise `WrongRowsError` unless it has every id once, computed, and no other."""
        found = self._connection.execute(
            "SELECT count(*), count(DISTINCT id), min(id), max(id), count(*) FILTER (WHERE id % 100 = 0), sum(gain) "
            f"FROM {self._table}"
        ).fetchone()
        assert found is not None
        end = self._first_id + self._rows
        wanted, gain = wanted_in_table(self._rows), gain_in_table(self._first_id, self._rows)
        is_right = found[:2] == (wanted, wanted) and self._first_id < found[2] <= found[3] < end and not found[4]
        if not is_right or found[5] is None or abs(found[5] - gain) > 1e-6 * self._rows:
            raise WrongRowsError(
                f"the table has {found[0]} rows with {found[1]} ids from {found[2]} to {found[3]}, {found[4]} of them "
                f"to be rejected, and a sum of {found[5]}; {wanted} ids from {self._first_id} on give {gain}"
            )
