"""Which Python with which PySpark and which others is tried, and with which connector for Kafka sources."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from tests.test_declared import DECLARED
from tpc.chaos.servers.jars import JAR_SETS, Coordinates


@dataclass(frozen=True)
class Combination:
    """`spark` is a requirement's specifier; with `lowest` everything has the lowest version that is declared."""

    python: str
    spark: str
    connector: str | None = None
    lowest: bool = False

    @property
    def name(self) -> str:
        """In the table's first columns, and for `--only`."""
        return f"{self.python} {self.spark}{' lowest' if self.lowest else ''}"

    def requirements(self) -> list[str]:
        """What is asked for beside the wheel."""
        return lowest() if self.lowest else [f"pyspark[sql]{self.spark}"]


def lowest() -> list[str]:
    """Every lower bound as the version itself."""
    found = []
    for requirement in map(Requirement, DECLARED["dependencies"]):
        [version] = [one.version for one in requirement.specifier if one.operator == ">="]
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        found.append(f"{requirement.name}{extras}=={version}")
    return found


def stand_in_client() -> str:
    """The PyMongo that still talks to the local MongoDB server, which is a stand-in, as the demo has it."""
    lines: list[str] = DECLARED["optional-dependencies"]["demo"]
    return next(line for line in lines if Requirement(line).name == "pymongo")


def connector(version: str) -> Coordinates:
    """That version of the Kafka source; all else as the tests have it, since newer token providers cannot be had."""
    artifacts = JAR_SETS["spark-kafka"].artifacts
    return Coordinates(
        tuple((group, name, version if "sql-kafka" in name else fixed) for group, name, fixed in artifacts),
        transitive=False,
    )


def python_of(version: str) -> Path | None:
    """An interpreter of this version: on the PATH, or one of pyenv's."""
    on_path = shutil.which(f"python{version}")
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return of_pyenv[-1] if of_pyenv else Path(on_path) if on_path else None


COMBINATIONS = (
    Combination("3.10", "==4.0.0", "4.0.0", lowest=True),
    Combination("3.10", "==4.0.*", "4.0.0"),
    Combination("3.11", "==4.0.*", "4.0.0"),
    Combination("3.11", "==4.1.*", "4.1.3"),
    Combination("3.11", "==4.2.*", "4.2.0"),
    Combination("3.11", "==4.3.*"),
    Combination("3.12", "==4.3.*"),
    Combination("3.13", "==4.3.*"),
)
"""No connector for 4.3 can be had: there the rows come from files."""
