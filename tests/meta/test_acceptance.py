"""Every row of docs/acceptance.md is shown by exactly one test."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\|\s*(\d+\.\d+-\d+)\s*\|", re.MULTILINE)


def rows(page: str) -> list[str]:
    return ROW.findall(page)


def markers(source: str) -> Iterator[tuple[str, str]]:
    """Yield (id, test) for each marker; one that stands elsewhere than on a test, or has no plain id, fails."""
    if "acceptance" not in source:
        return
    tree = ast.parse(source)
    found = 0
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test"):
            for call in function.decorator_list:
                if isinstance(call, ast.Call) and is_marker(call.func):
                    found += 1
                    yield row_of(call), function.name
    everywhere = sum(map(is_marker, ast.walk(tree)))
    assert found == everywhere, f"{everywhere - found} acceptance markers are no decorators, or name no row"


def is_marker(node: ast.AST) -> bool:
    # Most attributes are another one, and are not written out to see it.
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "acceptance"
        and ast.unparse(node) in ("pytest.mark.acceptance", "mark.acceptance")
    )


def row_of(call: ast.Call) -> str:
    match call.args, call.keywords:
        case [ast.Constant(value=str(row))], []:
            return row
        case _:
            raise AssertionError(f"{ast.unparse(call)} needs one id, written out")


def complaints(known: Sequence[str], shown: Mapping[str, Sequence[str]]) -> list[str]:
    problems = [f"{row} stands twice on the page" for row in sorted(set(known)) if known.count(row) > 1]
    problems += [f"{row} has no test" for row in dict.fromkeys(known) if row not in shown]
    problems += [f"{row} has several tests: {', '.join(tests)}" for row, tests in shown.items() if len(tests) > 1]
    problems += [
        f"{row} is no row, and {', '.join(tests)} names it" for row, tests in shown.items() if row not in known
    ]
    return problems


def test_every_row_has_exactly_one_test() -> None:
    shown: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for row, test in markers(path.read_text(encoding="utf-8")):
            shown[row].append(f"{path.relative_to(ROOT)}::{test}")
    problems = complaints(rows((ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")), shown)
    assert not problems, "\n".join(problems)


def test_the_page_has_rows_for_every_task_numbered_from_one() -> None:
    by_task: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows((ROOT / "docs" / "acceptance.md").read_text(encoding="utf-8")):
        task, number = row.split("-")
        by_task[task].append(int(number))
    tasks = {
        "0": "1",
        "1": "12",
        "2": "123",
        "3": "1234",
        "4": "1234",
        "5": "12",
        "6": "123",
        "7": "12345",
        "8": "1256789",
        "9": "12",
        "10": "234567",
    }
    assert list(by_task) == [f"{phase}.{task}" for phase, numbers in tasks.items() for task in numbers]
    for numbers in by_task.values():
        assert numbers == list(range(1, len(numbers) + 1))


def test_rows_are_read_from_the_first_column_only() -> None:
    assert rows("| id | what |\n|---|---|\n| 2.1-3 | not 9.9-9 |\n|10.2-11| x |\n2.1-4 | no row |") == [
        "2.1-3",
        "10.2-11",
    ]


def test_markers_are_read_from_tests_also_in_classes() -> None:
    source = """
class TestIt:
    @pytest.mark.acceptance("1.1-1")
    @pytest.mark.acceptance("1.1-2")
    async def test_one(self): ...

@mark.acceptance("1.1-3")
@pytest.mark.other("1.1-4")
def test_two(): ...
"""
    assert sorted(markers(source)) == [("1.1-1", "test_one"), ("1.1-2", "test_one"), ("1.1-3", "test_two")]


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.acceptance('1.1-1')\ndef helper(): ...",
        "@pytest.mark.acceptance('1.1-1')\nclass TestIt:\n    def test_one(self): ...",
        "pytestmark = pytest.mark.acceptance('1.1-1')",
        "@pytest.mark.acceptance(ROW)\ndef test_one(): ...",
        "@pytest.mark.acceptance('1.1-1', '1.1-2')\ndef test_one(): ...",
        "@pytest.mark.acceptance\ndef test_one(): ...",
    ],
)
def test_a_marker_that_shows_nothing_is_refused(source: str) -> None:
    with pytest.raises(AssertionError):
        list(markers(source))


def test_each_kind_of_gap_is_named() -> None:
    assert complaints(["1.1-1", "1.1-2", "1.1-2", "1.1-3"], {"1.1-2": ["a", "b"], "1.1-3": ["c"], "7.7-7": ["d"]}) == [
        "1.1-2 stands twice on the page",
        "1.1-1 has no test",
        "1.1-2 has several tests: a, b",
        "7.7-7 is no row, and d names it",
    ]
