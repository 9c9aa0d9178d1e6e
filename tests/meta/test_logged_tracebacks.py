"""A traceback comes into the log in one way only, which writes no credential."""

import ast
from pathlib import Path

import pytest

LAYERS = {"domain", "projections", "runtime", "infrastructure", "interfaces"}
THE_WAY = Path("runtime/kernel/log_raised.py")


def tracebacks(text: str) -> list[int]:
    """Return the lines that hand an exception to a logger."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [
        call.lineno for call in calls if _is_of_logger(call) or any(each.arg == "exc_info" for each in call.keywords)
    ]


def _is_of_logger(call: ast.Call) -> bool:
    # A task has a method of this name too, which takes no arguments.
    return isinstance(call.func, ast.Attribute) and call.func.attr == "exception" and bool(call.args)


@pytest.mark.parametrize("text", ["_log.exception('it failed')", "log.warning('it failed', exc_info=error)"])
def test_a_traceback_in_the_log_is_found(text: str) -> None:
    assert tracebacks(text) == [1]


def test_the_exception_of_a_task_is_none() -> None:
    assert tracebacks("task.exception()\nlog.error('it failed: %s', error)") == []


def test_no_module_writes_a_traceback_by_itself(project_files: list[Path], root: Path) -> None:
    modules = [path.relative_to(root) for path in project_files if path.suffix == ".py"]
    modules = [path for path in modules if path.parts[0] in LAYERS]
    found = {str(path): lines for path in modules if (lines := tracebacks((root / path).read_text(encoding="utf-8")))}
    assert found.keys() == {str(THE_WAY)}
