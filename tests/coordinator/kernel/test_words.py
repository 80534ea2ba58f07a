"""What the kernel says fits whichever runtime it runs under, and a service tells its users of no other one."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.imports import own_tree

TREE = own_tree()
OF_ONE_RUNTIME = re.compile(r"spark|foreachbatch|\bexecutors\b", re.IGNORECASE)


def told_in(source: str) -> list[str]:
    """The texts in a program that are no docstrings."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documents]
    return [node.value for node in texts if isinstance(node.value, str)]


def test_what_is_told_are_texts_that_are_no_docstrings() -> None:
    assert told_in('"""D"""\nA = "told"\n"""Of A."""\n\ndef f(x):\n    """D"""\n    return f"a {x} b"') == [
        "told",
        "a ",
        " b",
    ]


@pytest.mark.parametrize("module", sorted(TREE.within("tpc.coordinator.kernel")))
def test_the_kernel_names_no_runtime(module: str) -> None:
    lines = enumerate(TREE.modules[module].read_text().splitlines(), 1)
    assert [f"{number}: {line}" for number, line in lines if OF_ONE_RUNTIME.search(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(TREE.within("tpc.coordinator.service")))
def test_a_service_tells_of_no_other_runtime(module: str) -> None:
    assert [text for text in told_in(TREE.modules[module].read_text()) if OF_ONE_RUNTIME.search(text)] == []
