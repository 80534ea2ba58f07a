"""What a life is told must suit what the user's function returns: a pipeline, or a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.chaos.runner.orders import Orders
from tpc.chaos.user.life_program import main

JOB = """
import tpc

def pipeline():
    return tpc.pipeline("orders", checkpoint="checkpoint")
"""


def test_events_per_epoch_are_refused_by_name_for_a_pipeline_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "orders_of_spark.py").write_text(JOB)
    with pytest.raises(SystemExit) as ended:
        main(Orders(str(tmp_path), 1, events_per_epoch=50), "orders_of_spark:pipeline")
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "--events-per-epoch is for a service" in said and "maxOffsetsPerTrigger" in said
    assert not (tmp_path / "checkpoint").exists()
