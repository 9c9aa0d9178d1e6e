"""The pages that name places in the code name places that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGES = ("docs/glossary.md", "docs/architecture.md")
PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
WORD = re.compile(r"^\| \*\*([\w ]+)\*\* \| (.+) \| (.+) \|$", re.MULTILINE)


def names_in(body: list[ast.stmt], above: str = "") -> Iterator[str]:
    """Yield what a module or class defines: functions, classes and their members, and assigned names."""
    for each in body:
        match each:
            case ast.ClassDef(name=name):
                yield above + name
                yield from names_in(each.body, f"{above}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield above + name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield above + name
            case _:
                pass


def missing(text: str, root: Path) -> list[str]:
    """Return the places in a text that do not exist."""
    found: list[str] = []
    for path, name in PLACE.findall(text):
        file = root / path
        defined = set(names_in(ast.parse(file.read_text()).body)) if file.is_file() else set[str]()
        if name not in defined:
            found.append(f"{path}:{name}")
    return found


def test_a_place_that_does_not_exist_is_found(root: Path) -> None:
    there = "`domain/tools.py:ToolEffect` `domain/tools.py:ToolEffect.READ` `domain/agent/machine.py:AGENT`"
    gone = ["domain/tools.py:ToolEfect", "domain/tool.py:ToolEffect", "domain/agent/state.py:AgentState.no_such_thing"]
    assert missing(" ".join([there, *(f"`{each}`" for each in gone)]), root) == gone


@pytest.mark.parametrize("page", PAGES)
def test_every_place_that_a_page_names_exists(root: Path, page: str) -> None:
    text = (root / page).read_text()
    assert len(PLACE.findall(text)) >= 20
    assert missing(text, root) == []


def test_the_glossary_has_twenty_words_with_one_place_each(root: Path) -> None:
    words = WORD.findall((root / "docs/glossary.md").read_text())
    assert len({word for word, _, _ in words}) == len(words) == 20
    assert [word for word, _, place in words if not PLACE.fullmatch(place)] == []
