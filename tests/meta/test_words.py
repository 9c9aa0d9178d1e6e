"""Docstrings are plain sentences, and say None where they mean it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

LAYERS = ("domain", "runtime", "infrastructure", "interfaces", "projections", "testing")
INSTEAD_OF_NONE = re.compile(r"(?:;|,|\bor) nothing (?:when|where|while|if|without|before)\b|\bor nothing[.;]")
RIDDLE = re.compile(r"\b[Ww]hoever\b|^(?:What|Who|Told)\b")
"""A person without a name, and a first sentence that is only a subordinate clause."""


@cache
def texts(source: str) -> list[tuple[int, str]]:
    """Return every docstring, and every text that stands behind an attribute, with its line."""
    return [
        (each.lineno, " ".join(each.value.value.split()))
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
    ]


def found_in(source: str, pattern: re.Pattern[str] = INSTEAD_OF_NONE) -> list[tuple[int, str]]:
    return [(line, hit[0]) for line, text in texts(source) for hit in pattern.finditer(text)]


def test_nothing_in_the_place_of_none_is_found() -> None:
    source = (
        'def f():\n    """Return the row; nothing\n    when there is none."""\n\nX = 1\n"""The newest, or nothing."""\n'
    )
    assert sorted(found_in(source)) == [(2, "; nothing when"), (6, "or nothing.")]
    assert found_in('"""Raises an error, and nothing was written."""\nx = "; nothing when"\n') == []


def test_a_riddle_is_found() -> None:
    source = '"""What follows."""\ndef f():\n    """Return the lease. Whoever\n    holds it may go on."""\n'
    assert sorted(found_in(source, RIDDLE)) == [(1, "What"), (3, "Whoever")]
    assert found_in('"""Return what the model said."""\nx = "whoever"\n', RIDDLE) == []


def hits_in(root: Path, layer: str, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line}: {words!r}"
        for path in sorted((root / layer).rglob("*.py"))
        for line, words in found_in(path.read_text(), pattern)
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_docstring_says_none_where_it_means_it(root: Path, layer: str) -> None:
    assert hits_in(root, layer, INSTEAD_OF_NONE) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_docstring_names_its_subject(root: Path, layer: str) -> None:
    assert hits_in(root, layer, RIDDLE) == []
