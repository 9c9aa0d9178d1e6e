"""The list of fault points is what the runtime calls, each once before and once after something."""

import ast
from pathlib import Path

from steptrail.runtime.kernel.faults import FAULT_POINTS


def reached_in(source: str) -> set[str]:
    """Return the names that a source gives to a function that it calls `reach`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {
        each.value
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")).lstrip("_") == "reach"
        for each in call.args
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_the_calls_of_a_source_are_found() -> None:
    source = "def f(self, reach):\n    reach('a')\n    self._reach('b')\n    self.env.reach('c')\n    other('d')\n"
    assert reached_in(source) == {"a", "b", "c"}


def test_the_list_has_every_point_of_the_runtime_and_no_other(root: Path) -> None:
    reached = set[str]().union(*(reached_in(path.read_text()) for path in (root / "runtime").rglob("*.py")))
    assert reached == set(FAULT_POINTS)
    assert len(set(FAULT_POINTS)) == len(FAULT_POINTS)


def test_what_has_a_point_before_it_has_one_after_it() -> None:
    before, after = ({point.partition("-")[2] for point in FAULT_POINTS if point.startswith(w)} for w in ("b", "a"))
    assert before == after
