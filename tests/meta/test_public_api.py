"""What is public is listed, and what is listed exists."""

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import steptrail
from steptrail.interfaces.python.asking_runs import AskingRuns
from steptrail.interfaces.python.views import TrailViews

PUBLIC_SUBMODULES = (
    "agui",
    "audit",
    "broadcasting",
    "continuation",
    "errors",
    "evals",
    "events",
    "fleet",
    "handles",
    "hooks",
    "inspector",
    "lifecycle",
    "live",
    "output",
    "messages",
    "models",
    "projections",
    "serialization",
    "state",
    "stores",
    "telemetry",
    "testing",
    "tools",
    "ui",
    "workflow",
    "workflow_events",
)


def listed(module: ModuleType) -> list[str]:
    names: list[str] = getattr(module, "__all__", [])
    return names


def brought(module: ModuleType) -> set[str]:
    """Return the names that a module imports."""
    assert module.__file__ is not None
    nodes = ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
    return {each.asname or each.name for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names}


def in_order(names: list[str]) -> list[str]:
    """Sort as ruff's RUF022 does: constants, then classes, then the rest, numbers inside names by value."""

    def key(name: str) -> tuple[int, list[tuple[int, str]]]:
        kind = 0 if name.isupper() and len(name) > 1 else 1 if name.lstrip("_")[:1].isupper() else 2
        return kind, [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]

    return sorted(names, key=key)


def test_the_order_is_constants_then_classes_then_functions() -> None:
    assert in_order(["tool", "Agent", "EVENT_TYPES", "V10", "V9"]) == ["EVENT_TYPES", "V9", "V10", "Agent", "tool"]


def test_the_package_lists_exactly_its_public_names() -> None:
    submodules = {name.split(".")[1] for name in sys.modules if name.startswith("steptrail.")}
    # What pytest puts into a module that it rewrites begins with an @.
    public = {name for name in vars(steptrail) if not name.startswith(("_", "@"))} - submodules
    assert listed(steptrail) == in_order(list(public | (set(listed(steptrail)) & submodules)))


@pytest.mark.parametrize("name", PUBLIC_SUBMODULES)
def test_a_public_submodule_lists_its_names(name: str) -> None:
    spec = importlib.util.find_spec(f"steptrail.{name}")
    if spec is not None:
        assert hasattr(importlib.import_module(spec.name), "__all__"), spec.name


def test_every_root_module_is_a_documented_one(root: Path) -> None:
    found = {path.stem for path in (root / "src" / "steptrail").glob("*.py")} - {"__init__", "__main__"}
    assert found <= set(PUBLIC_SUBMODULES)


def test_every_list_of_names_is_sorted_and_true(modules: dict[str, ModuleType]) -> None:
    for path, module in modules.items():
        names = listed(module)
        assert names == in_order(list(set(names))), f"{path}.__all__ is not sorted"
        missing = [name for name in names if not hasattr(module, name)]
        assert missing == [], f"{path}.__all__"


def test_a_module_lists_its_names_only_if_it_brings_those_of_others(modules: dict[str, ModuleType]) -> None:
    needless = [name for name, module in modules.items() if listed(module) and not brought(module) & {*listed(module)}]
    assert needless == []


def public_modules() -> dict[str, ModuleType]:
    """Every module that users import names from, the package itself left out: it repeats the names used most."""
    names = [f"steptrail.{name}" for name in PUBLIC_SUBMODULES if importlib.util.find_spec(f"steptrail.{name}")]
    for name in tuple(names):
        place = Path(str(importlib.import_module(name).__file__))
        # `broadcasting/` and `tools/` are packages of public modules; a layer of that name holds private ones.
        if place.name == "__init__.py" and place.parent.parent.name == "steptrail" and not place.parent.is_symlink():
            names += [f"{name}.{each.stem}" for each in place.parent.glob("[a-z]*.py")]
    return {name: importlib.import_module(name) for name in names}


def test_no_public_name_stands_in_two_public_modules() -> None:
    places: dict[str, list[str]] = {}
    for module, found in public_modules().items():
        for name in listed(found):
            places.setdefault(name, []).append(module)
    assert len(places) > 250
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_package_repeats_a_public_name_only_for_the_same_thing() -> None:
    modules = public_modules().values()
    for name in listed(steptrail):
        assert {id(getattr(module, name)) for module in modules if name in listed(module)} <= {
            id(getattr(steptrail, name))
        }, name


def classes_in(kind: Any) -> Iterator[type]:
    """Return the classes of this library that an annotation is made of."""
    if isinstance(kind, type) and kind.__module__.startswith("steptrail."):
        yield kind
    for part in get_args(kind):
        yield from classes_in(part)


@pytest.mark.parametrize("of", [TrailViews, AskingRuns])
def test_what_the_read_models_answer_can_be_annotated(of: type) -> None:
    public = {id(getattr(module, name)) for module in public_modules().values() for name in listed(module)}
    ours = {"all", "refreshed"}  # the read models themselves, for the inspector and the command line
    methods = [(name, method) for name, method in vars(of).items() if inspect.isfunction(method) and name not in ours]
    answers = {name: get_type_hints(method).get("return") for name, method in methods if not name.startswith("_")}
    hidden = {name: each for name, kind in answers.items() for each in classes_in(kind) if id(each) not in public}
    assert len(answers) >= 4
    assert hidden == {}


def error_classes() -> dict[str, type[Exception]]:
    from steptrail.domain import errors

    return {name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}


def test_every_error_can_be_imported_from_steptrail_errors() -> None:
    import steptrail.errors

    assert [name for name in error_classes() if name not in listed(steptrail.errors)] == []


def drawn_tree(text: str) -> dict[str, str | None]:
    """Read a tree that is drawn with four columns a level: each name with the one above it."""
    above: list[str] = []
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        drawn = re.match(r"^    ((?:│   |    )*(?:[├└]── )?)([A-Z]\w+)", line)
        if drawn:
            level = len(drawn[1]) // 4
            del above[level:]
            found[drawn[2]] = above[-1] if above else None
            above.append(drawn[2])
    return found


def test_the_tree_of_errors_draws_the_classes_there_are_and_no_others() -> None:
    from steptrail.domain import errors

    classes = error_classes()
    parents = {
        name: next((p.__name__ for p in each.__bases__ if p.__name__ in classes), None)
        for name, each in classes.items()
    }
    assert drawn_tree(errors.__doc__ or "") == parents


def used_names(source: str) -> set[str]:
    """Return the names that code uses otherwise than to import, list or catch them."""
    tree = ast.parse(source)
    caught = {
        id(name)
        for each in ast.walk(tree)
        if isinstance(each, ast.ExceptHandler) and each.type
        for name in ast.walk(each.type)
    }
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and id(each) not in caught}


def test_every_error_without_a_more_exact_one_is_raised_somewhere(root: Path) -> None:
    classes = error_classes()
    leaves = {name for name, each in classes.items() if not each.__subclasses__()}
    used: set[str] = set()
    for layer in ("domain", "runtime", "infrastructure", "interfaces", "projections", "testing"):
        for path in (root / layer).rglob("*.py"):
            source = path.read_text()
            if path != root / "domain" / "errors.py" and any(name in source for name in leaves - used):
                used |= used_names(source)
    assert leaves - used == set()
    assert used_names("try:\n    f()\nexcept (A, B):\n    raise C from None\n") == {"f", "C"}


def test_the_classes_of_what_a_result_holds_can_be_imported() -> None:
    from steptrail import state
    from steptrail.testing import ScriptedModel, calls

    @steptrail.tool(approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        return "paid"

    where = steptrail.external_tool("where", "Where the user is.", {"type": "object"})
    script = [calls(("pay", {"cents": 1}), ("where", {})), "Done."]
    agent = steptrail.AgentBuilder("a").with_model(ScriptedModel(script)).with_tools(pay, where)
    with steptrail.Steptrail.open_sync("sqlite:///:memory:") as trail:
        waiting = trail.run(agent.build(), "Pay.", session="s").state
        trail.session("s").approve(waiting.open_approvals[0].id, by="ana")
        trail.session("s").answer(waiting.open_calls[0].id, "here", by="ana")
        done = trail.session("s").resume(agent.build()).state
    paid = done.steps[0].tool_executions[0]
    asked = (waiting.open_approvals[0], waiting.open_calls[0])
    held = (done, done.info, done.status, done.steps[0], paid, paid.status, *asked)
    assert sorted({type(each).__name__ for each in held}) == state.__all__
    assert all(vars(state)[type(each).__name__] is type(each) for each in held)
