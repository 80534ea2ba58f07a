"""The commands for pipelines, given a service: each does its work, or says what to do instead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die, Numbers, die
from tests.support.processes import REPOSITORY, eventually
from tpc.__main__ import app
from tpc.errors import ConfigurationError, StateLostError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

pytestmark = pytest.mark.slow  # processes of their own

JOB = "numbers_job:service"
WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None; from tpc.__main__ import main; sys.exit(main())"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Numbers:
    """A service that has not run yet; `numbers_job:service` makes it, with as many values as the file `count` says."""
    (tmp_path / "numbers_job.py").write_text(
        "from pathlib import Path\nfrom tests.coordinator.service.program import Numbers\n"
        f"here = Path({str(tmp_path)!r})\n"
        "def service():\n    return Numbers(here, int((here / 'count').read_text())).service()\n"
        "def others():\n    import tpc\n    from tpc.sources import IterableSource\n"
        "    made = tpc.service('others', directory=here / 'others')\n"
        "    made.each(made.read(IterableSource([])))(lambda event, out: None)\n"
        "    made.write('rows', {'n': int}).to(Numbers(here).sink('even'))\n    return made\n"
    )
    (tmp_path / "count").write_text("50")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "numbers_job", raising=False)
    return Numbers(tmp_path, 50)


def command(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own, on a machine without Spark."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(*words: str) -> Exception:
    with pytest.raises((ConfigurationError, StateLostError)) as raised:
        CliRunner().invoke(app, list(words), catch_exceptions=False)
    return raised.value


def test_check_needs_no_spark_and_begins_nothing(job: Numbers) -> None:
    done = command("check", JOB)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "OK: a start would refuse nothing of settings, plan, log and sinks\n"
    assert job.service().log.slots() == []
    job.run()
    assert command("check", JOB).returncode == 0
    assert job.is_right()


def test_check_tells_what_a_source_has_lost(job: Numbers, tmp_path: Path) -> None:
    job.run()
    (tmp_path / "count").write_text("20")
    done = CliRunner().invoke(app, ["check", JOB, "--json"])
    assert done.exit_code == 1
    refusal = json.loads(done.output)["refusal"]
    assert (refusal["error"], "has 20 values, and 50 of it were read" in refusal["what"]) == ("StateLostError", True)
    assert refusal["safe"]


def test_check_tells_of_another_number_of_shards(job: Numbers, tmp_path: Path) -> None:
    text = (tmp_path / "numbers_job.py").read_text()
    job.run()
    (tmp_path / "numbers_job.py").write_text(
        text
        + "def shard():\n    from tests.coordinator.service.test_shards import EveryOther\n    import tpc\n"
        + "    made = tpc.service('numbers', directory=here / 'service', shard=0, of=2)\n"
        + "    made.each(made.read(EveryOther(4)))(lambda event, out: None)\n"
        + "    made.write('rows', {'n': int}).to(Numbers(here).sink('even'))\n    return made\n"
    )
    done = CliRunner().invoke(app, ["check", "numbers_job:shard"])
    assert done.exit_code == 1
    assert "one without shards of service numbers#1" in done.output


def test_doctor_looks_for_nothing_of_spark_and_java(job: Numbers, tmp_path: Path) -> None:
    done = command("doctor", JOB, "--json", environment={"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"})
    assert done.returncode == 0, done.stdout
    about = [one["about"] for one in json.loads(done.stdout)]
    assert {"log", "sink even", "sink odd"} <= set(about)
    assert "Java" not in about
    job.run()
    (tmp_path / "count").write_text("20")
    done = command("doctor", JOB, "--json")
    assert done.returncode == 1
    assert [one["seen"] for one in json.loads(done.stdout) if one["level"] == "problem"] == [
        "source 'numbers' has 20 values, and 50 of it were read before"
    ]


def test_orphans_of_a_service_are_seen_from_another_one(job: Numbers) -> None:
    with pytest.raises(Die):
        job.run_with({"epoch.prepared": die})
    assert json.loads(command("orphans", JOB, "--json").stdout) == []
    assert columns_of(command("orphans", "numbers_job:others")) == ["sink", "resource", "epoch", "fate"]
    done = command("orphans", "numbers_job:others", "--json")
    [orphan] = json.loads(done.stdout)
    assert (orphan["sink"], orphan["pipeline"]) == ("even", "numbers#1")
    assert orphan["fate"].startswith("left alone: its pipeline is taken for alive: it renewed its owner entry")
    job.run()
    assert job.is_right()


def test_what_is_in_doubt_is_listed_with_its_epoch(job: Numbers) -> None:
    with pytest.raises(Die):
        job.run_with({"epoch.prepared": die})
    assert columns_of(command("in-doubt", JOB)) == ["sink", "resource", "generation", "epoch", "fate"]


def columns_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.splitlines()[0].split()


def test_run_starts_a_service_and_a_signal_ends_it_after_its_epoch(job: Numbers, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tpc", "run", JOB, "--every-s", "0.02", "--strategy", "fixed", "--attempts", "1"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        eventually(job.is_right, "all rows are there", timeout_s=60)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert "it was asked to stop" in told


@pytest.mark.parametrize("option", ["--every-s", "--standby-s"])
def test_run_says_which_options_are_a_service_s(option: str, tmp_path: Path) -> None:
    code = (
        "import sys; from tpc.coordinator.operations.supervision.job_process import main;"
        " print(main(sys.argv[1], {sys.argv[2]: 1}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "tests.coordinator.toy_job:runs", option.strip("-").replace("-", "_")],
        cwd=REPOSITORY,
        env={**os.environ, "TOY_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "1\n"
    assert f"{option} is for a service" in done.stderr


def test_run_says_that_a_service_has_no_trigger(job: Numbers) -> None:
    arguments = ["run", JOB, "--trigger", "once", "--strategy", "fixed", "--attempts", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "tpc", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "--trigger is for a pipeline, and this is a service" in done.stderr
    assert "say --every-s" in done.stderr


# Savepoints -----------------------------------------------------------------------------------------------------------


class Sums:
    """A service with a state, which moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sums_job.py").write_text(
            "from pathlib import Path\nfrom tests.coordinator.service.test_commands import sums\n"
            f"here = Path({str(root)!r})\n"
            "def old():\n    return sums(here, 'old', 30)\n"
            "def new():\n    return sums(here, 'new', 30)\n"
        )

    def written(self) -> list[tuple[int, int]]:
        lines = [line for path in (self.root / "rows").glob("*.json") for line in path.read_text().splitlines()]
        return sorted((row["n"], row["sum"]) for row in map(json.loads, lines))


def sums(root: Path, place: str, count: int) -> tpc.Service:
    service = tpc.service("sums", directory=root / place)
    state: Any = service.state("state")

    @service.each(service.read(IterableSource(range(count))))
    def add(number: int, out: Any) -> None:
        state["sum"] = state.get("sum", 0) + number
        out.row("rows", {"n": number, "sum": state["sum"]})

    service.write("rows", {"n": int, "sum": int}).to(FileSink(root / "rows", name="rows", format="json"))
    return service


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sums:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "sums_job", raising=False)
    sums(tmp_path, "old", 20).run(every=7, until_end=True)
    return Sums(tmp_path)


@pytest.mark.parametrize("named", ["directory", "job"])
def test_a_service_moves_with_its_states(named: str, moving: Sums) -> None:
    root = moving.root
    done = command("savepoint", str(root / "old") if named == "directory" else "sums_job:old", "--to", "kept", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)["savepoint"]
    assert "was moved to the savepoint" in command("check", "sums_job:old").stderr
    restored = command("restore", made, "--checkpoint", "new", "--move", "--job", "sums_job:new")
    assert restored.returncode == 0, restored.stderr
    assert command("check", "sums_job:new").returncode == 0
    sums(root, "new", 30).run(until_end=True)
    assert moving.written() == [(n, n * (n + 1) // 2) for n in range(30)]


def test_a_service_is_not_copied_and_not_forked(moving: Sums) -> None:
    for target in ("old", "sums_job:old"):
        error = refused("savepoint", target, "--to", "kept", "--copy")
        assert "moves whole and cannot be copied or forked" in str(error)
    assert not (moving.root / "kept").exists()
    made = json.loads(command("savepoint", "old", "--to", "kept", "--json").stdout)["savepoint"]
    assert "moves whole" in str(refused("restore", made, "--checkpoint", "fork", "--fork"))
    assert not (moving.root / "fork").exists()
