"""What executors are asked for, and what their answers mean: which of them lacks what, in words. Asks nobody."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.secrets import kept_elsewhere
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from tpc.settings import Elsewhere
    from tpc.sink import Sink

logger = logging.getLogger(__name__)

OWN = {"tpc": "tpc", "pyspark": "pyspark", "pyarrow": "pyarrow"}
"""What every task needs, module and package."""

REMEDY = (
    "packages: the same environment on every machine, or spark.archives; settings: spark.executorEnv.NAME, or the"
    " workers' own environment; directories: mount one file system under one path everywhere."
)

Answer = Mapping[str, Any]
"""See `executor_probe.answer`."""


@dataclass(frozen=True)
class Needs:
    """What is asked for; each with the names of the sinks that need it."""

    modules: Mapping[str, Sequence[str]]
    packages: Mapping[str, str]
    settings: Mapping[str, tuple[Elsewhere, Sequence[str]]]
    directories: Mapping[str, Sequence[str]]


def needs_of(sinks: Mapping[str, Sink]) -> Needs:
    """What their writers need."""
    modules: dict[str, list[str]] = {module: [] for module in OWN}
    packages = {package: package for package in OWN.values()}
    settings: dict[str, tuple[Elsewhere, list[str]]] = {}
    directories: dict[str, list[str]] = {}
    for name, sink in sinks.items():
        needed = sink.executor_needs()
        for module, package in needed.modules.items():
            modules.setdefault(module, []).append(name)
            if package:
                packages[package] = package
        for setting in kept_elsewhere(sink):
            settings.setdefault(repr(setting), (setting, []))[1].append(name)
        for directory in needed.directories:
            if "://" not in directory:  # of another kind the sink's own check has something to say
                directories.setdefault(directory, []).append(name)
    return Needs(modules, packages, settings, directories)


def question_of(needs: Needs) -> dict[str, Any]:
    """What `executor_probe.answer` is asked, but for its places. Another process is sent the settings pickled."""
    return {
        "modules": list(needs.modules),
        "packages": list(needs.packages),
        "settings": {name: setting for name, (setting, _) in needs.settings.items()},
    }


def lacks(answer: Answer, needs: Needs, ours: str) -> Iterator[str]:
    """What an executor says that it has not, or has otherwise than the driver; a line for each.

    `ours` is the driver's version of this library.
    """
    where = _where(answer)
    for module, why in answer["modules"].items():
        if why:
            yield f"{where} {module} cannot be imported{_for(needs.modules[module])}: {why}"
    theirs = answer["versions"].get("tpc")
    if ours and theirs and ours != theirs:
        yield f"{where} is tpc {theirs}, the driver's is {ours}"
    for name, why in answer["settings"].items():
        if why:
            yield f"{where}{_for(needs.settings[name][1])}: {why}"
    for directory, why in answer["directories"].items():
        if why:
            yield f"{where} the directory {directory} is not the driver's{_for(needs.directories[directory])}: {why}"


def _where(answer: Answer) -> str:
    """The host, and the executor's directory there: two may run on one."""
    return f"on {answer['host']} (in {answer['directory']})"


def _for(sinks: Sequence[str]) -> str:
    return f", needed by {', '.join(sinks)}" if sinks else ""


def unseen(answer: Answer, places: Mapping[str, Path]) -> Iterator[str]:
    """What an executor says that it has written, and the driver does not find."""
    for directory, why in answer["directories"].items():
        if not why and not (places[directory] / answer["wrote"]).exists():
            yield f"{_where(answer)} what is written to {directory} is not there for the driver"


def refusal(missing: Iterable[str], pipeline: str, epoch: int | None = None) -> ConfigurationError:
    """The error that names all that is missing."""
    return ConfigurationError(
        f"executors lack what the sinks need: {'; '.join(dict.fromkeys(missing))}",
        pipeline=pipeline,
        epoch=epoch,
        remedy=REMEDY,
    )


def tell_other_versions(answers: Iterable[Answer]) -> None:
    """Log the packages of which executors have another version: it may do."""
    others = {
        f"{package} {theirs} on {answer['host']}, {ours} on the driver"
        for answer in answers
        for package, theirs in answer["versions"].items()
        if theirs and (ours := version_here(package)) and ours != theirs
    }
    if others:
        logger.warning("executors have other versions than the driver: %s", "; ".join(sorted(others)))


@cache
def version_here(package: str) -> str:
    """Of a package of this process; empty where it is none that was installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
