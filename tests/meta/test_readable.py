"""Every class that `msgspec` reads is made known to it under one lock before: see `domain/readable.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("domain", "projections", "infrastructure", "runtime", "interfaces", "testing")


def types_read(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the types that a module has `msgspec` read."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called, args = node.func, node.args
        if isinstance(called, ast.Name) and called.id == "partial" and args:
            called, args = args[0], args[1:]
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name == "Decoder" and args:
            yield args[0]
        if name == "convert" and len(args) > 1:
            yield args[1]
        if name == "decode":
            yield from (each.value for each in node.keywords if each.arg == "type")


def careless(text: str) -> list[int]:
    return [
        kind.lineno
        for kind in types_read(ast.parse(text))
        if not (isinstance(kind, ast.Call) and getattr(kind.func, "id", "") == "readable")
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_no_class_is_read_that_was_not_made_known(layer: str) -> None:
    paths = [path for path in (ROOT / layer).rglob("*.py") if path != ROOT / "domain" / "readable.py"]
    found = {str(path.relative_to(ROOT)): careless(path.read_text()) for path in paths if "msgspec" in path.read_text()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "msgspec.json.Decoder(Event)",
        "msgspec.convert(given, Event, from_attributes=True)",
        "convert(given, kind)",
        "msgspec.json.decode(text, type=Event)",
        "partial(decode, type=Event)",
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert careless(line) == [1]
