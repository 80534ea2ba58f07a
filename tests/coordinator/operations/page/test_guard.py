"""Who has no token sees nothing from elsewhere, and no page of others can make a browser read this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.operations.page.logs import LocalPipeline, Site
from tpc.coordinator.operations.address import names_this_machine

TOKEN = "a-token-not-to-be-seen"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    pipeline = LocalPipeline(tmp_path).term().epochs(1)
    return Site(lambda: (pipeline.log, None), token=TOKEN)


@pytest.mark.parametrize("path", ["/", "/pipelines/0", "/pipelines/0/epochs/0", "/style.css", "/nothing"])
def test_without_the_token_nothing_is_answered(site: Site, path: str) -> None:
    refused = site.client.get(path)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic ")
    assert TOKEN not in refused.text


def test_the_token_opens_as_bearer_and_as_password_of_any_user(site: Site) -> None:
    assert site.client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert site.client.get("/", auth=("anybody", TOKEN)).status_code == 200


@pytest.mark.parametrize(
    "shown",
    [
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Basic !!",
        "Basic YWJj",
        f"Digest {TOKEN}",
        TOKEN,
    ],
)
def test_anything_else_does_not(site: Site, shown: str) -> None:
    assert site.client.get("/", headers={"Authorization": shown}).status_code == 401
    assert site.client.get(f"/?token={TOKEN}").status_code == 401


def test_the_token_stands_on_no_page(site: Site) -> None:
    answer = site.client.get("/pipelines/0", auth=("x", TOKEN))
    assert TOKEN not in answer.text + str(answer.headers)


def test_without_a_token_only_names_of_this_machine_are_answered(tmp_path: Path) -> None:
    site = Site(lambda: (LocalPipeline(tmp_path).log, None))
    for host, status in {
        "127.0.0.1:8080": 200,
        "localhost:8080": 200,
        "[::1]:8080": 200,
        "LOCALHOST": 200,
        "evil.example": 421,
        "127.0.0.1.evil.example:8080": 421,
        "": 421,
    }.items():
        assert site.client.get("/", headers={"Host": host}).status_code == status, host


def test_the_browser_is_told_to_run_our_script_only_and_to_keep_nothing(site: Site) -> None:
    for answer in (site.client.get("/"), site.client.get("/", auth=("x", TOKEN)), site.client.post("/")):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_addresses_of_others_are_not_this_machine() -> None:
    assert [host for host in ("0.0.0.0", "::", "192.168.0.4", "example.org", "") if names_this_machine(host)] == []
    assert all(map(names_this_machine, ("127.0.0.1", "127.0.0.9", "::1", "localhost")))
