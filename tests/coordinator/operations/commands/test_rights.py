"""Commands of an operator who is not the pipeline's user: it can read what they leave, and who decided is on record."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typer.testing import CliRunner

from tests.coordinator.operations.savepoints.test_folder import Place
from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.other_users import DAEMON, NOBODY, as_user, can_be_another
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint_places import NOTES
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.operations.actions import operator_name
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.errors import ConfigurationError, ParkedError, TransientError
from tpc.records import RecordKind
from tpc.support import durable_files
from tpc.support.file_rights import inheriting

only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may give a file to another user")
NAMELESS = 54321


@pytest.fixture
def umask_of_root() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """Unlike `tmp_path`, which only root may enter."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def give(folder: Path, mode: int) -> Path:
    """A folder of the service's, with all that is in it."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, DAEMON, NOBODY)
        path.chmod(mode if path.is_dir() else mode & 0o666)
    return folder


def strange(root: Path) -> list[str]:
    """What has not owner and mode of the folder that it lies in."""
    found = []
    for path in root.rglob("*"):
        above, own = path.parent.lstat(), path.lstat()
        mode = stat.S_IMODE(above.st_mode) & (0o7777 if path.is_dir() else 0o666)
        if (own.st_uid, own.st_gid, stat.S_IMODE(own.st_mode)) != (above.st_uid, above.st_gid, mode):
            found.append(f"{path.relative_to(root)} {own.st_uid} {own.st_gid} {own.st_mode:o}")
    return found


def run(*words: object) -> None:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output or done.exception


def pending(root: Path) -> Path:
    journal = Journal(LocalLog(root / "checkpoint" / LOG_FOLDER))
    journal.append(RecordKind.GENERATION, generation_body(1))
    for kind, body in (intent(manifest(0)), complete(0), intent(manifest(1, {"a": 2, "b": 0}))):
        journal.append(kind, body)
    return root / "checkpoint"


@only_root
@pytest.mark.usefixtures("umask_of_root")
@pytest.mark.parametrize("mode", [0o755, 0o700, 0o2775, 0o750])
def test_what_root_s_commands_make_is_the_pipeline_s(tmp_path: Path, mode: int) -> None:
    checkpoint = pending(tmp_path)
    give(tmp_path, mode)
    run("resolve", checkpoint, "--epoch", 1, "--sink", "a", "--mark-committed", "--reason", "by hand")
    assert len(LocalLog(checkpoint / LOG_FOLDER).slots()) == 5
    assert not strange(tmp_path)


@only_root
@pytest.mark.usefixtures("umask_of_root")
def test_a_savepoint_and_what_is_restored_from_it_are_those_of_the_folders_above(tmp_path: Path) -> None:
    place = Place(tmp_path / "one")
    (tmp_path / "kept").mkdir()
    (tmp_path / "two").mkdir()
    give(tmp_path, 0o755)
    run("savepoint", place.checkpoint, "--to", tmp_path / "kept")
    [folder] = (tmp_path / "kept").iterdir()
    run("restore", folder, "--checkpoint", tmp_path / "two" / "a" / "b", "--move")
    assert not strange(tmp_path)


@only_root
@pytest.mark.usefixtures("umask_of_root")
@pytest.mark.parametrize("new", ["{}/new/log", "sqlite:///{}/log.db#job"], ids=["folder", "sqlite"])
def test_a_log_that_is_brought_elsewhere_is_the_pipeline_s(tmp_path: Path, new: str) -> None:
    checkpoint = pending(tmp_path)
    give(tmp_path, 0o750)
    run("log", "import", checkpoint / LOG_FOLDER, new.format(tmp_path))
    assert not strange(tmp_path)


@only_root
@pytest.mark.usefixtures("umask_of_root")
def test_in_a_folder_of_everybody_files_stay_those_of_who_made_them(tmp_path: Path) -> None:
    os.chown(tmp_path, DAEMON, NOBODY)
    tmp_path.chmod(0o1777)
    with inheriting():
        durable_files.create(tmp_path / "file", b"")
    found = (tmp_path / "file").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)


@pytest.mark.usefixtures("umask_of_root")
def test_a_pipeline_s_own_process_keeps_to_its_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    durable_files.create(tmp_path / "file", b"")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@only_root
def test_a_log_that_this_user_may_not_read_is_told_with_owner_and_mode(open_to_all: Path) -> None:
    checkpoint = pending(open_to_all)
    [*_, last] = sorted((checkpoint / LOG_FOLDER).glob("*.json"))
    last.chmod(0o600)
    program = (
        "import os, sys; from pathlib import Path; from tpc.coordinator.kernel.log.local import LocalLog\n"
        f"log = LocalLog(Path({str(checkpoint / LOG_FOLDER)!r}))\n"
        f"os.setegid({NOBODY}); os.seteuid({DAEMON})\n"
        "try: log.read(4)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith(TransientError.__name__)
    assert f"{last} (it is of user 0 (root), group 0, mode 0600, and this is user 1 (daemon)" in done.stdout
    assert "To do: give the files of a checkpoint the owner and the mode of the directory" in done.stdout
    assert "disk" not in done.stdout


@pytest.mark.parametrize("name", ["lock", "stop-asked", "takeover", "released", "parked.json"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_in_the_place_of_a_note_is_not_written_through(tmp_path: Path, name: str, is_there: bool) -> None:
    """The pipeline's user, or who else may write to a checkpoint, makes no operator write elsewhere."""
    checkpoint, elsewhere = pending(tmp_path), tmp_path / "elsewhere"
    if is_there:
        elsewhere.write_text("years of work")
    (checkpoint / "tpc" / name).symlink_to(elsewhere)
    words = ["resolve", str(checkpoint), "--epoch", "1", "--sink", "a", "--mark-committed", "--reason", "x"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, (ConfigurationError, OSError, type(None)))
    StopRequest(checkpoint / "tpc").make()
    ParkedNote(checkpoint / "tpc").keep(ParkedError("refused", epoch=1, sink="a"))
    assert elsewhere.exists() is is_there
    assert not is_there or elsewhere.read_text() == "years of work"


# Who decided -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["USER", "LOGNAME", "LNAME", "USERNAME"])
def test_who_decides_is_no_variable_that_anybody_can_set(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "somebody-else")
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert operator_name().startswith(f"user {os.getuid()}")
    assert "somebody-else" not in operator_name()


def test_the_user_that_sudo_names_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "anna\x1b\n")
    assert operator_name().endswith(", SUDO_USER anna\\x1b\\n")


def test_a_user_without_a_home_is_told_which_variable_names_the_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> pwd.struct_passwd:
        raise KeyError

    for name in ("HOME", "XDG_STATE_HOME", NOTES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert operator_name().startswith(f"user {os.getuid()}")
    with pytest.raises(ConfigurationError, match="has no home directory") as caught:
        files_at("hdfs://host/orders", explicit_log=True)
    assert NOTES in caught.value.remedy


@pytest.mark.slow
@pytest.mark.skipif(not can_be_another(), reason="this process cannot become another user")
def test_a_user_without_a_name_can_decide(tmp_path: Path) -> None:
    """As in a container whose platform gives each a number of its own."""
    checkpoint = pending(tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, NAMELESS, 0)
    words = ["resolve", str(checkpoint), "--epoch", "1", "--sink", "a", "--mark-committed", "--reason", "x", "--json"]
    command = [*as_user(NAMELESS, 0), sys.executable, "-m", "tpc", *words]
    environment = {key: value for key, value in os.environ.items() if key not in ("USER", "LOGNAME", "SUDO_USER")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operator"] == f"user {NAMELESS}"
