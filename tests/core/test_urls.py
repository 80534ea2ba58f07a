"""No part of a user's name or password of a URL is shown, or goes on record, and another place stays another one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpc.source_records import SourceRecord
from tpc.urls import has_password, without_user

PASSWORDS = ["pw", "p/w", "p@w", "p w", "p#w", "p?w", "p:w", "p/w@x y", "@", "/", ":", "p%2Fw", "[pw]", "p\nw", "1x"]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("rest", ["h/x", "h:8020/x", "h", "[::1]:80/x", "10.0.0.1:1/a@b", "h1:1,h2:2/x", "h?a=1"])
@pytest.mark.parametrize("scheme", ["http", "s3a", "postgresql+psycopg", "jdbc:mysql"])
def test_nothing_of_a_user_remains(scheme: str, rest: str, password: str) -> None:
    url = f"{scheme}://user:{password}@{rest}"
    assert without_user(url) == f"{scheme}://{rest}"
    assert has_password(url)
    assert SourceRecord("kind", url).place == f"{scheme}://{rest}"
    assert without_user(f"{url} and {url}") == f"{scheme}://{rest} and {scheme}://{rest}"


@given(st.text().filter(lambda text: "@" not in text and "://" not in text))
@example("8020")
def test_a_password_of_any_characters_without_an_at_is_not_shown(password: str) -> None:
    if not password[:1].isdigit():  # what looks like a port is one
        assert without_user(f"http://user:{password}@host/x") == "http://host/x"
    if not set(password) & set("/?#"):
        assert without_user(f"http://{password}@host/x") == "http://host/x"


@pytest.mark.parametrize(
    "place",
    [
        "http://h/x",
        "http://h:8020/a@b",
        "hdfs://h:8020",
        "s3://bucket/a@b/c:d@e",
        "http://[::1]:80/a@b",
        "http://[::1]/a@b",
        "file:///a:b@c/d@e",
        "/a:b@c",
        "topic@x:y",
        "abfss://container@account.dfs.core.windows.net/x@y",
        "",
        "mongodb://h1:1,h2:2/x@y",
    ],
)
def test_what_is_no_user_stays(place: str) -> None:
    assert without_user(place) == place
    assert not has_password(place)


def test_the_container_of_a_store_stays_and_what_follows_it_does_not() -> None:
    assert without_user("abfss://one:key@account/x") == "abfss://one@account/x"
    assert without_user("wasbs://one@account/x") != without_user("wasbs://other@account/x")


def test_a_user_without_a_password_may_be_a_token() -> None:
    assert without_user("https://token@h/x") == "https://h/x"
    assert not has_password("https://token@h/x")
