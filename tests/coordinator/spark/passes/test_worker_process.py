"""What a Spark worker is spared: only work without effect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import importlib, os, sys, zipfile, zipimport
from tpc.coordinator.spark.passes.task import spare_repetitions

archive = sys.argv[1]
reads = []
original = zipimport._read_directory
zipimport._read_directory = lambda path: reads.append(path) or original(path)

def packed(**modules):
    with zipfile.ZipFile(archive, "w") as out:
        for name, text in modules.items():
            out.writestr(name + ".py", text)

packed(one="value = 1")
sys.path.insert(0, archive)
import one
spare_repetitions()
importlib.invalidate_caches()
reads.clear()
for _ in range(5):
    importlib.invalidate_caches()
print("unchanged", reads.count(archive))
packed(one="value = 1", two="value = 2")
importlib.invalidate_caches()
import two
print("changed", reads.count(archive), two.value)
os.rename(archive, archive + ".away")
importlib.invalidate_caches()
os.rename(archive + ".away", archive)
importlib.invalidate_caches()
packed(three="value = 3")
importlib.invalidate_caches()
os.rename(archive, archive + ".away")
importlib.invalidate_caches()
os.rename(archive + ".away", archive)
importlib.invalidate_caches()
import three
print("back", three.value)
"""


def test_an_archive_is_read_again_when_it_has_changed_or_was_away_and_only_then(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)

    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "modules.zip")], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == ["unchanged 0", "changed 1 2", "back 3"]
