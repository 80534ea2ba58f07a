"""The documents say nothing that is not there: links, code, imports, signatures, commands, paths, tests, errors.

What the examples do is tested where they live; here is only what can be known without starting anything.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import tpc
from tpc import coordinator, errors, sinks, sources
from tpc.__main__ import app
from tpc.coordinator.spark.passes.routes import Writing
from tpc.coordinator.spark.pipeline import Pipeline

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OF_THE_REPOSITORY = re.compile(r"(?:tpc|sinks|coordinator|chaos|tests)/[\w./]+\.\w+(?:::\w+)?")
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))

DOCUMENTED: dict[str, Callable[..., Any]] = {
    **{name: getattr(sinks, name) for name in sinks.__all__},
    "tpc.pipeline": tpc.pipeline,
    "tpc.positions": tpc.positions,
    "tpc.service": tpc.service,
    "tpc.Serve": tpc.Serve,
    "KafkaSource": sources.KafkaSource,
    "Service.state": tpc.Service.state,
    "Service.keep": tpc.Service.keep,
    "Service.timer": tpc.Service.timer,
    "Service.windows": tpc.Service.windows,
    "tpc.make_transactional": tpc.make_transactional,
    "Service.read": tpc.Service.read,
    "Service.each": tpc.Service.each,
    "Service.write": tpc.Service.write,
    "Pipeline.write": Pipeline.write,
    "Pipeline.offsets_to": Pipeline.offsets_to,
    "Pipeline.option": Pipeline.option,
    "Pipeline.on_complete": Pipeline.on_complete,
    "Pipeline.on_decision_needed": Pipeline.on_decision_needed,
    "Pipeline.start": Pipeline.start,
    ".to": Writing.to,
    ".otherwise": Writing.otherwise,
    "tpc.env": tpc.env,
    "LocalLog": coordinator.LocalLog,
    "SqlLog": coordinator.SqlLog,
    "ObjectLog": coordinator.ObjectLog,
}
"""What is in the reference with its whole signature."""


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """What a link may name in a document, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@each_document
def test_every_python_block_parses_and_its_imports_resolve(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    for block in blocks(document, "python"):
        for module, name in imports(ast.parse(textwrap.dedent(block))):
            found = importlib.import_module(module)
            if name is not None and not hasattr(found, name):
                importlib.import_module(f"{module}.{name}")


def imports(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_signatures_in_the_reference_are_those_of_the_code(name: str) -> None:
    text = "\n".join(prose(path) for path in (ROOT / "docs" / "reference").glob("*.md"))
    found = [span for span in re.findall(r"`([^`]+)`", text) if span.startswith(f"{name}(")]
    # Examples name a function too; its signature is the first mention that is one.
    signatures = [parsed for span in found if (parsed := documented_parameters(span[len(name) :])) is not None]
    assert signatures, f"the reference does not show {name}(...)"
    assert signatures[0] == parameters(DOCUMENTED[name])


def documented_parameters(arguments: str) -> list[tuple[str, str, object]] | None:
    """Of a text like `(a, *, b=1)`; None when it is no list of parameters."""
    scope: dict[str, Callable[..., Any]] = {}
    try:
        exec(f"def shown{arguments}: ...", scope)
    except SyntaxError:
        return None
    return parameters(scope["shown"])


def parameters(function: Callable[..., Any]) -> list[tuple[str, str, object]]:
    """Name, kind and default of each parameter."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name, p.default) for p in found if p.name != "self"]


def commands() -> dict[str, set[str]]:
    """The commands of `tpc`, those of its groups with the group's name before, each with its options."""
    return dict(options(typer.main.get_command(app)))


def options(group: Any, before: str = "") -> Iterator[tuple[str, set[str]]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options(command, f"{before}{name} ")
        else:
            yield before + name, {o for parameter in command.params for o in parameter.opts} | {"--help"}


@pytest.mark.slow
@each_document
def test_every_command_named_exists_with_its_options(document: Path) -> None:
    known = commands()
    text = document.read_text()
    lines = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", prose(document))]
    lines += [
        line.partition("#")[0]
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    for line in lines:
        called = re.match(r"(?:\$ )?(?:\S*/)?tpc ((?:chaos |sink |log |savepoints )?[a-z][a-z-]*)(.*)$", line)
        if called:
            command, rest = called.groups()
            assert command in known, line
            assert set(re.findall(r"(?<!\S)\[?(--[a-z-]+)", rest)) <= known[command], line


def test_every_command_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
    missing = [name for name in commands() if f"`tpc {name}" not in text]
    assert not missing


@each_document
def test_every_make_target_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", document.read_text()))
    assert named <= targets
    assert document != ROOT / "README.md" or {"demo", "test"} <= named


@each_document
def test_every_file_and_test_named_exists(document: Path) -> None:
    for span in re.findall(r"`([^`\n]+)`", prose(document)):
        if OF_THE_REPOSITORY.fullmatch(span):
            path, _, test = span.partition("::")
            assert (ROOT / path).exists(), span
            assert not test or f"def {test}(" in (ROOT / path).read_text(), span


def test_the_code_of_the_tutorial_is_the_demo_s() -> None:
    source = unformatted((ROOT / "chaos" / "flights" / "pipeline.py").read_text())
    shown = blocks(ROOT / "docs" / "tutorial.md", "python")
    assert len(shown) >= 4
    for block in shown:
        assert unformatted(block) in source, f"not in the pipeline:\n{block}"


def unformatted(code: str) -> str:
    """Code without what a formatter may change: spaces, line ends, trailing commas."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code))


def test_every_error_a_pipeline_can_raise_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.TpcError)]
    of_pipelines = [c.__name__ for c in classes if not issubclass(c, errors.LocalStackError)]
    missing = [name for name in of_pipelines if f"`{name}`" not in text]
    assert not missing


def test_the_picture_of_an_epoch_has_every_colour_for_light_and_for_dark() -> None:
    light, dark = (ROOT / "docs" / "epoch.svg").read_text().split("prefers-color-scheme: dark")
    styled = re.compile(r"^ +\.(\w+) *\{ (?:fill|stroke): #", re.MULTILINE)
    assert styled.findall(light)
    assert styled.findall(light) == styled.findall(dark)
