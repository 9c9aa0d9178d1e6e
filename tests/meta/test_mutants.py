"""The mutation tool: what it breaks, under which name, and that a hole in tests is told from a test that sees."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts.mutant_sites import is_alive, mutated, sites
from scripts.mutants import main

SOURCE = '''"""A module."""

LIMIT: int = 3


def is_over(used: int, *, strict: bool = False) -> bool:
    """Tell whether it is over."""
    if strict and used == LIMIT:
        return True
    return used > LIMIT


def note(words: list[str], word: str) -> None:
    words.append(f"{word} 1")
'''
TESTS = """from steptrail.code import is_over


def test_over():
    assert is_over(4)
    assert not is_over(2)
    assert is_over(3, strict=True)
"""


def test_each_change_is_one_that_compiles_to_something_else_at_the_place_that_it_names() -> None:
    found = sites("code.py", SOURCE)
    assert {(each.function, each.operator, each.before, each.after) for each in found} >= {
        ("(module)", "constant", "3", "4"),
        ("is_over", "constant", "False", "True"),
        ("is_over", "leave out of a condition", "strict and used == LIMIT", "((strict))"),
        ("is_over", "return None", "used > LIMIT", "None"),
        ("is_over", "compare", " > ", " >= "),
        ("note", "leave out", 'words.append(f"{word} 1")', "pass"),
    }
    for each in found:
        assert is_alive(SOURCE, each)
        assert mutated(SOURCE, each) != SOURCE


def test_a_change_keeps_its_name_when_something_else_is_edited() -> None:
    before = {each.id: each.line for each in sites("code.py", SOURCE)}
    after = {each.id: each.line for each in sites("code.py", SOURCE.replace("LIMIT: int", "\n\nOTHER = 1\nLIMIT: int"))}
    assert len(before) == len(sites("code.py", SOURCE))
    assert before.keys() < after.keys()
    assert all(after[name] == line + 3 for name, line in before.items())


@pytest.mark.slow("starts pytest five times")
def test_what_no_test_sees_survives_in_a_copy_and_the_checkout_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    for name, text in {
        "src/steptrail/__init__.py": "",
        "src/steptrail/code.py": SOURCE,
        "tests/unit/test_code.py": TESTS,
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    # A process takes twice as long to load every plugin that is installed.
    plugins = ["--disable-plugin-autoload", "-p", "xdist.plugin", "-p", "_hypothesis_pytestplugin"]
    (tree / "pyproject.toml").write_text(
        f"[tool.pytest.ini_options]\naddopts = {['--import-mode=importlib', *plugins]}\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    monkeypatch.setattr("scripts.mutants._KEPT", tmp_path / "kept")
    chosen = {
        (each.operator, each.before): each.id
        for each in sites("src/steptrail/code.py", SOURCE)
        if each.operator in {"compare", "leave out"}
    }
    arguments = ["--tree", str(tree), "--paths", "src/steptrail", "--tests", "unit", "--workers", "1", "--only"]
    assert main([*arguments, *chosen.values()]) == 0
    (written,) = (tmp_path / "kept").glob("tree-only.json")
    status = {row["site"]["id"]: row["status"] for row in json.loads(written.read_text(encoding="utf-8"))}
    # Nobody asks about 3 itself, and nobody notes anything.
    assert status[chosen["compare", " > "]] == "survived"
    assert status[chosen["compare", " == "]] == "killed"
    assert status[chosen["leave out", 'words.append(f"{word} 1")']] == "no test"
    assert "killed" in capsys.readouterr().out
    assert (tree / "src/steptrail/code.py").read_text(encoding="utf-8") == SOURCE
