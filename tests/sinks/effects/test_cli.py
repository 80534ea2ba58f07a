"""`tpc effects`: what is left for a person, and the person's word."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.sinks.effects.outbox import Outbox
from tpc.__main__ import app
from tpc.errors import ConfigurationError
from tpc.sinks import Effect, EffectRefusedError
from tpc.sinks.effects.effect import Fate

KEY = "shop#1/pay/0"


def refuse(effect: Effect) -> str:
    """The first account only."""
    if effect.row["account"] == "a1":
        raise EffectRefusedError("no such account")
    return "paid"


def with_a_dead_one(tmp_path: Path) -> str:
    """An outbox of a pipeline that has ended, with a dead effect."""
    outbox = Outbox(tmp_path / "outbox", refuse)
    driver = outbox.life()
    outbox.committed(driver, 0, [(0, "a1", 1), (1, "a2", 2)])
    driver.completed(0)
    assert outbox.comes_to({"0": Fate.DEAD, "1": Fate.DONE})
    driver.close()
    return str(outbox.path)


def test_what_is_left_is_shown_and_a_person_decides(tmp_path: Path) -> None:
    outbox, run = with_a_dead_one(tmp_path), CliRunner().invoke
    shown = run(app, ["effects", outbox]).output
    assert "dead" in shown and KEY in shown and "no such account" in shown
    assert isinstance(run(app, ["effects", outbox, "--done", KEY]).exception, ConfigurationError)  # no reason
    assert run(app, ["effects", outbox, "--done", KEY, "--reason", "paid by hand, anna"]).exit_code == 0
    told = json.loads(run(app, ["effects", outbox, "--json"]).output)
    assert [(one["state"], one["effects"]) for one in told["counts"]] == [("done", 2)]
    assert told["left"] == []
    assert isinstance(
        run(app, ["effects", outbox, "--again", KEY, "--reason", "it is done"]).exception, ConfigurationError
    )


def test_a_directory_that_is_no_outbox_is_not_made_one(tmp_path: Path) -> None:
    assert isinstance(CliRunner().invoke(app, ["effects", str(tmp_path)]).exception, ConfigurationError)
    assert list(tmp_path.iterdir()) == []
