"""Who is to blame for an error of PostgreSQL: the table of SQLSTATE, and codes that are in no table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors as psycopg_errors

from tpc.sinks.postgres.sqlstates import Blame, blamed

KNOWN = {
    kind.sqlstate: name
    for name, kind in vars(psycopg_errors).items()
    if isinstance(kind, type) and issubclass(kind, psycopg_errors.Error) and isinstance(kind.sqlstate, str)
}
ROW, SETTING, MOMENT = Blame.ROW, Blame.SETTING, Blame.MOMENT
BY_CLASS = {
    "row": "09 20 21 22 23 27 2F 38 44 54 P0",
    "setting": "03 0A 0B 0F 0L 0P 0Z 10 24 26 28 2B 2D 34 39 3B 3D 3F 42 F0",
    "moment": "02 08 25 40 53 55 57 58 72 HV XX",
}
EXPECTED = {name: Blame(blame) for blame, names in BY_CLASS.items() for name in names.split()}
OF_THEIR_OWN = {
    "55P03": Blame.LOCK,
    "40P01": Blame.LOCK,
    "55000": SETTING,
    "55P02": SETTING,
    "55P04": SETTING,
}
codes = st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=5, max_size=5)


def test_every_code_that_the_driver_knows_has_its_place() -> None:
    assert len(KNOWN) > 200
    wrong = {
        code: (name, blamed(code))
        for code, name in KNOWN.items()
        if blamed(code) is not OF_THEIR_OWN.get(code, EXPECTED.get(code[:2]))
    }
    assert wrong == {}


@given(codes)
def test_a_code_whose_class_postgresql_has_not_is_the_user_s_own(code: str) -> None:
    expected = OF_THEIR_OWN.get(code, EXPECTED.get(code[:2], ROW))
    if code[:2] not in ("00", "01"):
        assert blamed(code) is expected


@given(codes)
def test_what_code_of_the_user_s_raises_is_a_row_s_fault_unless_it_asks_for_another_try(code: str) -> None:
    found = blamed(code, "pl_exec.c", "exec_stmt_raise")
    if code in ("55P03", "40P01"):
        assert found is Blame.LOCK
    else:
        assert found is (MOMENT if code[:2] in ("08", "40", "53", "57", "58") else ROW)


@pytest.mark.parametrize("code", ["P0001", "XX123", "MY001", "U0001", "ZZ999", "55000", "42501", "38001", "2F005"])
def test_codes_that_triggers_are_seen_to_raise(code: str) -> None:
    assert blamed(code, "pl_exec.c", "exec_stmt_raise") is ROW


@pytest.mark.parametrize("file", ["varsup.c", "multixact.c"])
def test_a_server_that_is_out_of_transaction_numbers_refuses_no_row(file: str) -> None:
    """Else all rows of a stream would become dead letters."""
    assert blamed("54000", file, "GetNewTransactionId") is MOMENT
    assert blamed("54000", "nbtutils.c", "_bt_check_third_page") is ROW


def test_an_error_without_a_code_is_the_connection_s() -> None:
    assert blamed("") is MOMENT
