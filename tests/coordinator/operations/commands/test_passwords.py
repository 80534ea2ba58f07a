"""A password in a URL, however it is written, is in nothing that people read: descriptions, errors, their causes."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tpc.__main__ import app
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.operations.page.tokens import read_token
from tpc.errors import TpcError
from tpc.sinks import FileSink, KafkaSink

PARTS = ("Qleft", "Qmid", "Qright")
SIGNS = "@/#?: %&="
PASSWORDS = [
    "Qleft",
    *(f"Qleft{sign}Qright" for sign in SIGNS),
    *(f"Qleft{one}Qmid{two}Qright" for one, two in itertools.product("@/#?:", repeat=2)),
]
URLS = [
    "user:{}@127.0.0.1:1/database",
    "user:{}@host/database",
    "user:{}@host",
    "us/er:{}@host/x",
    "user:{}@host/x?a=b",
]


def told_by(call: Callable[[], object]) -> str:
    """What it returns, or what is shown of what it raises, with all causes."""
    try:
        return repr(call())
    except TpcError as error:
        return f"{error!r} {error} {error.details} {''.join(traceback.format_exception(error))}"


def described(log: object) -> str:
    return f"{log.describe()} {log!r} {log.where(1)}"  # type: ignore[attr-defined]  # logs


def hidden(password: str, told: str) -> bool:
    # a traceback shows lines of this file, which hold no password
    return not any(part in told for part in PARTS)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("password", PASSWORDS)
def test_no_description_of_a_log_in_a_database_holds_it(url: str, password: str) -> None:
    place = f"postgresql://{url.format(password)}"
    assert hidden(password, told_by(lambda: described(SqlLog(place, pipeline="job"))))
    assert hidden(password, told_by(lambda: described(open_log(f"{place}#job"))))
    assert hidden(password, told_by(lambda: described(open_log(place))))


@pytest.mark.parametrize("password", [one for one in PASSWORDS if not set("/@?#") & set(one)])
def test_nor_one_of_an_object_store_or_a_sink(password: str) -> None:
    place = f"s3://user:{password}@bucket/prefix"
    assert hidden(password, told_by(lambda: described(ObjectLog(place, prefix=""))))

    def of_sinks() -> list[Mapping[str, str] | str]:
        sinks = [FileSink(place, name="f"), KafkaSink("topic", servers=place, name="k")]
        return [part for sink in sinks for part in (sink.describe(), repr(sink))]

    assert hidden(password, told_by(of_sinks))


@pytest.mark.parametrize(
    "command",
    [
        "status",
        "history",
        "recover",
        "sweep",
        "in-doubt",
        "check",
        "check --json",
        "doctor",
        "watch --once",
        "log check",
    ],
)
@pytest.mark.parametrize("password", ["Qleft@Qright", "Qleft#Qright", "Qleft@Qmid/Qright", "Qleft?Qmid@Qright"])
def test_no_command_shows_it(tmp_path: Path, command: str, password: str) -> None:
    """Of such a URL nothing is opened."""
    place = f"postgresql://user:{password}@127.0.0.1:1/database"
    done = CliRunner().invoke(app, [*command.split(), place])
    assert done.exit_code == 1
    assert isinstance(done.exception, (TpcError, SystemExit))
    assert hidden(password, done.output + "".join(traceback.format_exception(done.exception)))


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True), (0o604, True)])
def test_a_token_that_everybody_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-not-to-be-seen")
    token.chmod(mode)
    assert read_token(token) == "a-token-not-to-be-seen"
    assert ("every user of this machine can read the token" in caplog.text) is warned
    assert "a-token-not" not in caplog.text
