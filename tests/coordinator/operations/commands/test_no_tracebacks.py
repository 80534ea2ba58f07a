"""A command ends with a paragraph, whatever the file system is like: no rights, files garbled, output closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tpc
from tests.coordinator.operations.savepoints.test_folder import Place
from tests.coordinator.service.program import Numbers
from tests.support.other_users import DAEMON
from tpc.__main__ import main
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.errors import ConfigurationError, ParkedError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

COMMANDS = {
    "status": ["status", "PLACE"],
    "history": ["history", "PLACE"],
    "show": ["show", "PLACE", "1"],
    "log check": ["log", "check", "PLACE"],
    "log import": ["log", "import", "PLACE", "NEW"],
    "watch": ["watch", "PLACE", "--once"],
    "resolve": ["resolve", "PLACE", "--epoch", "1", "--sink", "a", "--mark-committed", "--reason", "x"],
    "accept-schema": ["accept-schema", "PLACE", "--sink", "a", "--reason", "x"],
    "savepoint": ["savepoint", "PLACE", "--to", "NEW", "--timeout-s", "0"],
    "savepoint --copy": ["savepoint", "PLACE", "--to", "NEW", "--copy", "--timeout-s", "0"],
    "savepoints list": ["savepoints", "list", "PLACE"],
    "savepoints check": ["savepoints", "check", "PLACE"],
    "savepoints drop": ["savepoints", "drop", "PLACE"],
    "restore": ["restore", "PLACE", "--checkpoint", "NEW", "--move"],
    "adopt": ["adopt", "PLACE", "--checkpoint", "NEW", "--name", "job"],
    "recover": ["recover", "PLACE"],
    "in-doubt": ["in-doubt", "PLACE"],
}


@contextmanager
def arguments(words: list[str]) -> Iterator[None]:
    before, sys.argv = sys.argv, ["tpc", *words]
    try:
        yield
    finally:
        sys.argv = before


def run(command: list[str], place: Path, new: Path) -> int:
    """The program's own entry point, in this process; its exit code."""
    named = {"PLACE": str(place), "NEW": str(new)}
    with arguments([named.get(word, word) for word in command]):
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
    return 0


def _garbled(name: str) -> Callable[[Path], None]:
    def garble(checkpoint: Path) -> None:
        path = checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'{"x\xff\x00')

    return garble


def _a_list(name: str) -> Callable[[Path], None]:
    def garble(checkpoint: Path) -> None:
        (checkpoint / name).write_text("[1]")

    return garble


def _log_is_a_file(checkpoint: Path) -> None:
    (checkpoint / LOG_FOLDER).rename(checkpoint / "elsewhere")
    (checkpoint / LOG_FOLDER).write_text("x")


def _slot_is_a_folder(checkpoint: Path) -> None:
    newest = sorted((checkpoint / LOG_FOLDER).glob("*.json"))[-1]
    newest.unlink()
    newest.mkdir()


def _loop(checkpoint: Path) -> None:
    (checkpoint / "tpc").rename(checkpoint / "elsewhere")
    (checkpoint / "tpc").symlink_to("tpc")


def _is_a_file(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.with_name("elsewhere"))
    checkpoint.write_text("x")


NOTES = ("parked.json", "alive", "next", "lock", "takeover", "released", "callbacks.json", "sources.json", "stop-asked")
FAULTS: dict[str, Callable[[Path], None]] = {
    **{f"{name} garbled": _garbled(f"tpc/{name}") for name in NOTES},
    **{f"{name} a list": _a_list(f"tpc/{name}") for name in NOTES},
    "metadata garbled": _garbled("metadata"),
    "offsets garbled": _garbled("offsets/1"),
    "commits garbled": _garbled("commits/1"),
    "log a file": _log_is_a_file,
    "slot a folder": _slot_is_a_folder,
    "a loop of links": _loop,
    "a file": _is_a_file,
    "nothing wrong": lambda _: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_garbled_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, fault: str
) -> None:
    place = Place(tmp_path)
    FAULTS[fault](place.checkpoint)
    code = run(COMMANDS[command], place.checkpoint, tmp_path / "new")
    told = capsys.readouterr()
    assert code in (0, 1)
    assert code == 0 or told.err.startswith("tpc: ") or command == "log check", told
    assert "Traceback" not in told.err


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "\udcff"], ids=["long", "deep", "no text"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_no_file_can_have_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    assert run(COMMANDS[command], tmp_path / name, tmp_path / "new") == 1
    assert capsys.readouterr().err.startswith("tpc: ")


@pytest.mark.parametrize("note", ["", "{", "[]", "null", "\x00"])
def test_a_garbled_note_of_a_move_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], note: str) -> None:
    folder = Place(tmp_path).move()
    (folder / "moved.json").write_text(note)
    assert run(["restore", "PLACE", "--checkpoint", "NEW", "--move"], folder, tmp_path / "new") == 1
    assert "moved.json of the savepoint" in (told := capsys.readouterr().err)
    assert "is garbled: whether its pipeline has gone on from it is unknown" in told
    assert not (tmp_path / "new").exists()
    assert run(["savepoints", "list", "PLACE"], folder.parent, tmp_path) == 0
    assert run(["restore", "PLACE", "--checkpoint", "NEW", "--fork"], folder, tmp_path / "new") == 0


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("closed", ["the folder above", "the checkpoint", "its notes", "its log", "a slot"])
def test_an_operator_without_rights_reads_whose_it_is(closed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        (root / "above").mkdir()
        place = Place(root / "above")
        for path in root.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        log = place.checkpoint / LOG_FOLDER
        for command in COMMANDS.values():  # so that all modules are there
            run(command, root / "none", root / "new")
        capsys.readouterr()
        path = {
            "the folder above": root / "above",
            "the checkpoint": place.checkpoint,
            "its notes": place.checkpoint / "tpc",
            "its log": log,
            "a slot": sorted(log.glob("*.json"))[-1],
        }[closed]
        path.chmod(0)
        os.seteuid(DAEMON)
        try:
            for name, command in COMMANDS.items():
                code, told = run(command, place.checkpoint, root / "new"), capsys.readouterr().err
                assert code == 1 or "savepoints" in name, name
                assert "Traceback" not in told
                if name in ("status", "history", "show", "watch"):
                    assert f"{path} is of user 0" in told or f"{path} (it is of user 0" in told, told
                    assert "mode 0000" in told
                    assert "this is user 1" in told
                    assert "chown --reference" in told
        finally:
            os.seteuid(0)


# Its output --------------------------------------------------------------------------------------------------------


def program(shell: str, checkpoint: Path) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m tpc status {checkpoint}"
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell.format(command)}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "code"), [("{} | head -1", 0), ("{} | true", 0), ("{} >&-", 0), ("{} >&- 2>&-", 0), ("{} > /dev/full", 1)]
)
def test_an_output_that_is_closed_ends_no_command(tmp_path: Path, shell: str, code: int) -> None:
    done = program(shell, Place(tmp_path).checkpoint)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if code:
        assert done.stderr.startswith("tpc: No space left on device")


# Its words ---------------------------------------------------------------------------------------------------------


def test_a_command_that_needs_the_job_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path)
    assert run(["recover", "PLACE"], place.checkpoint, tmp_path) == 1
    told = capsys.readouterr().err
    assert "this command needs the pipeline or service itself, not a place" in told
    assert "name module:function" in told
    assert "No module named" not in told


def test_what_people_copy_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are absolute wherever the command was given a relative one, and no word stands for what is known."""
    place = Place(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(["savepoint", "checkpoint", "--to", "kept"], place.checkpoint, tmp_path) == 0
    [folder] = (tmp_path / "kept").iterdir()
    assert f"`tpc restore {folder} --checkpoint NEW --move`" in capsys.readouterr().out
    assert run(["status", "checkpoint"], place.checkpoint, tmp_path) == 1
    assert f"`tpc restore {folder} --checkpoint NEW --move`" in capsys.readouterr().err
    assert run(["restore", f"kept/{folder.name}", "--checkpoint", "new", "--move"], folder, tmp_path) == 0
    assert f"checkpoint={str(tmp_path / 'new')!r}" in capsys.readouterr().out
    assert run(["status", "none"], folder, tmp_path) == 1
    assert f"no intent log in {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_remedy_names_what_the_error_and_the_command_know(tmp_path: Path) -> None:
    from tpc.coordinator.operations.commands.targets import filled, place_named

    place_named(str(Place(tmp_path).checkpoint))
    told = str(filled(ParkedError("refused", epoch=2, sink="a")))
    assert f"`tpc resolve {tmp_path / 'checkpoint'} --epoch 2 --sink a --accept-loss --reason" in told
    assert "--epoch N --sink S" in str(ParkedError("refused"))


def test_a_remedy_names_the_log_that_the_command_was_given(tmp_path: Path) -> None:
    from tpc.coordinator.operations.commands.targets import filled, place_named

    place = Place(tmp_path)
    place_named(str(place.checkpoint), str(tmp_path / "a log"))
    told = str(filled(ParkedError("refused", epoch=2, sink="a")))
    assert f"`tpc resolve {place.checkpoint} --log '{tmp_path / 'a log'}' --epoch 2 --sink a --accept-loss" in told


def test_no_decision_is_put_beside_the_lock_of_another_pipeline(tmp_path: Path) -> None:
    from tpc.coordinator.operations.commands.targets import checkpoint_named

    one, other = Numbers(tmp_path / "one", 10), tpc.service("other", directory=tmp_path / "other")
    one.run()
    other.each(other.read(IterableSource([1])))(lambda event, out: None)
    other.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
    other.run(until_end=True)
    log = one.directory / "service" / "tpc" / "log"
    assert checkpoint_named(str(one.directory / "service"), str(log))
    with pytest.raises(ConfigurationError, match=r"is of pipeline other#1, the log at .* of pipeline numbers#1"):
        checkpoint_named(str(tmp_path / "other"), str(log))


def test_status_prints_the_decisions_as_they_are_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.core.builders import intent, manifest

    place = Place(tmp_path)
    place.journal.append(*intent(manifest(2)))
    ParkedNote(place.checkpoint / "tpc").keep(ParkedError("refused", epoch=2, sink="a"))
    assert run(["status", "PLACE"], place.checkpoint, tmp_path) == 0
    told = capsys.readouterr().out
    assert f"`tpc resolve {place.checkpoint} --epoch 2 --sink=a --accept-loss --reason 'WHY'`" in told
    assert isinstance(place.log, LocalLog)
