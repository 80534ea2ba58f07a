"""A record or manifest that somebody else has written: the names in it rename, delete and read no other file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sinks.files.test_commit import Branches
from tests.tpc_support.test_names_below import NAMES
from tpc.errors import CorruptionError
from tpc.handles import Handle
from tpc.sink import Committable, Verdict
from tpc.sinks.files import committed_paths

SECRET = b"PRIVATE"
ACTS: dict[str, Callable[[Branches, Committable], object]] = {
    "verify": lambda branches, branch: branches.committer.verify([branch]),
    "commit": lambda branches, branch: branches.commit(branch),
    "give up": lambda branches, branch: branches.committer.give_up([branch]),
    "abort": lambda branches, branch: branches.committer.abort([branch]),
}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def another(branch: Committable, name: object) -> Committable:
    """A record that calls the file of a branch so, and knows what is in it."""
    return replace(
        branch,
        size_bytes=len(SECRET),
        data={**branch.data, "file": name, "sha256": hashlib.sha256(SECRET).hexdigest()},
    )


@pytest.mark.slow
@given(NAMES, st.sampled_from(sorted(ACTS)))
@example("../../../outside/secret", "commit")
@example("../outside/secret", "give up")
@example("OUTSIDE/secret", "commit")
@example("OUTSIDE/secret", "give up")
@example("ROOT/mine.txt", "commit")
@example("mine.txt", "give up")
@example("../identity", "give up")
@example("../identity", "commit")
@settings(deadline=None)
def test_no_name_in_a_committable_touches_a_file_that_is_not_the_branch_s(name: str, act: str) -> None:
    with TemporaryDirectory() as room:
        branches = Branches(Path(room) / "data")
        branch = branches.prepare(["x"], 1)
        outside = Path(room) / "outside"
        outside.mkdir()
        (outside / "secret").write_bytes(SECRET)
        (branches.root / "mine.txt").write_bytes(SECRET)
        before, ours = everything(Path(room)), {f"data/_tpc/staging/{branch.data['file']}"}
        name = name.replace("OUTSIDE", str(outside)).replace("ROOT", str(branches.root))
        try:
            answer = ACTS[act](branches, another(branch, name))
        except CorruptionError as error:
            answer = error
        after = everything(Path(room))
        made = {path for path in after.keys() - before.keys() if not path.startswith("data/_tpc/")}
        assert not made
        assert {path: data for path, data in before.items() if path not in ours} == {
            path: after.get(path) for path in before if path not in ours
        }
        if act == "commit":
            assert answer == [Verdict.REFUSED]


def test_the_refusal_says_which_branch_and_what_to_do(tmp_path: Path) -> None:
    branches = Branches(tmp_path / "data")
    branch = branches.prepare(["x"], 1)
    [outcome] = branches.outcomes(another(branch, "../../secret"))
    assert str(branch.handle) in outcome.evidence
    assert "'../../secret'" in outcome.evidence
    assert "bring back the log" in outcome.evidence


def test_a_link_in_the_place_of_a_staged_file_is_not_published(tmp_path: Path) -> None:
    branches = Branches(tmp_path / "data")
    branch = branches.prepare(["x"], 1)
    (tmp_path / "secret").write_bytes(SECRET)
    staged = branches.staging / branch.data["file"]
    staged.unlink()
    staged.symlink_to(tmp_path / "secret")
    assert branches.commit(another(branch, branch.data["file"])) == [Verdict.REFUSED]
    staged.rename(branches.root / staged.name)
    assert branches.commit(another(branch, branch.data["file"])) == [Verdict.REFUSED]
    assert branches.read() == []


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "mine.txt", None, ["x"]])
def test_a_manifest_leads_no_reader_elsewhere(tmp_path: Path, name: object) -> None:
    branches = Branches(tmp_path / "data")
    branches.apply(["x"], 1)
    [path] = branches.manifests.rglob("*.json")
    found = json.loads(path.read_bytes())
    found["files"][0]["file"] = name
    path.write_text(json.dumps(found))
    with pytest.raises(CorruptionError, match="is not a manifest"):
        committed_paths(branches.root)


@pytest.mark.parametrize("sink", ["../x", "a/b", "..", "/etc", "", "a\0", "a\nb", "x" * 60])
def test_no_handle_of_a_record_has_a_sink_s_name_that_is_a_path(sink: str) -> None:
    with pytest.raises(CorruptionError, match="not the handle"):
        Handle.parse(f"tpc~job~1~1~{sink}~1~0~1")
