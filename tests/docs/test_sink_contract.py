"""The page on the contract names all that an author meets in `tpc.sink`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

import pytest

from tests.docs.examples import DOCS
from tpc.handles import Handle
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    ExecutorNeeds,
    Limit,
    Marker,
    OffsetsCommitter,
    Outcome,
    Owner,
    Sink,
    Validator,
    Verdict,
    Writer,
)

PAGE = (DOCS / "reference" / "sink-contract.md").read_text()
KIT_PAGE = (DOCS / "reference" / "testing.md").read_text()


@pytest.mark.parametrize("kind", [Sink, Validator, Writer, Committer, OffsetsCommitter], ids=lambda kind: kind.__name__)
def test_every_method_is_on_the_page(kind: type) -> None:
    names = [name for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert names
    assert [name for name in names if f"{name}(" not in PAGE and f"{name}`" not in PAGE] == []


@pytest.mark.parametrize(
    "kind", [Handle, Committable, Outcome, Marker, Owner, CheckContext, ExecutorNeeds], ids=lambda k: k.__name__
)
def test_every_field_is_on_the_page(kind: type) -> None:
    names = [field.name for field in dataclasses.fields(kind)]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_signatures_are_those_of_the_code() -> None:
    shown = PAGE.split("<!-- drawn: signatures -->")[1].split("<!-- end -->")[0]
    assert [line for line in shown.splitlines() if line] == signatures().splitlines()


def signatures() -> str:
    """The contract's classes with the methods and types that an author writes."""
    return "\n".join(
        ["```python", *(line for kind in (Sink, Validator, Writer, Committer) for line in _class(kind)), "```"]
    )


def _class(kind: type) -> Iterator[str]:
    yield f"class {kind.__name__}:"
    for name, value in vars(kind).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield f"    def {name}{inspect.signature(value)}: ...".replace("'", "")


def test_every_verdict_and_every_limit_has_its_row() -> None:
    assert [verdict.name for verdict in Verdict if f"| `{verdict.name}` |" not in PAGE] == []
    assert [limit.name for limit in Limit if f"| `{limit.name}` |" not in KIT_PAGE] == []
