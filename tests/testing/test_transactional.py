"""The kit for kept objects: it takes those that may be kept, and rejects each that may not by the test meant for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.testing import kept_objects
from tests.testing.kept_objects import ModelKit, ReplacedKit
from tpc.testing import TransactionalConformance


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept_objects.PLACE, str(tmp_path / "content"))


class TestModel(ModelKit):
    pass


@pytest.mark.slow
class TestReplaced(ReplacedKit):
    pass


REJECTED: list[tuple[type[TransactionalConformance], str, tuple[Any, ...] | None, str]] = [
    (kept_objects.LossyKit, "the_bytes_give_the_object_back", (), "put all of the object into the bytes"),
    (kept_objects.NoChangeKit, "a_change_makes_another_object", (), "has changed nothing"),
    (kept_objects.SharedKit, "what_a_copy_changes_does_not_show_in_the_original", (), "make everything again"),
    (kept_objects.SharedKit, "an_aborted_epoch_leaves_what_was_decided", (), "not what was decided"),
    (kept_objects.SharedKit, "another_process_goes_on_with_what_this_one_wrote", (), "nothing that only this process"),
    (kept_objects.UnorderedKit, "the_same_changes_make_the_same_bytes_in_every_process", None, "in a fixed order"),
    (kept_objects.OfThisProcessKit, "the_same_changes_make_the_same_bytes_in_every_process", (1,), "other bytes"),
    (kept_objects.InAFileKit, "a_killed_process_leaves_it_as_it_was_or_as_it_came_to", ("cut",), "keep the content"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kit", "test", "arguments", "why"), REJECTED, ids=lambda one: getattr(one, "__name__", None))
def test_an_object_that_cannot_be_kept_is_rejected_with_what_to_do(
    kit: type[TransactionalConformance], test: str, arguments: tuple[Any, ...] | None, why: str
) -> None:
    runs = [(1,), (2,)] if arguments is None else [arguments]
    with pytest.raises(AssertionError, match=why):
        for one in runs:
            getattr(kit(), f"test_{test}")(*one)


def test_a_kit_that_replaces_a_test_is_refused() -> None:
    with pytest.raises(TypeError, match="write hooks instead"):
        type("Sloppy", (TransactionalConformance,), {"test_a_change_makes_another_object": lambda self: None})
