"""What is public is listed, and what is listed exists."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import steptrail

PUBLIC_SUBMODULES = (
    "agui",
    "audit",
    "broadcasting",
    "continuation",
    "errors",
    "events",
    "hooks",
    "lifecycle",
    "live",
    "messages",
    "models",
    "projections",
    "serialization",
    "testing",
    "tools",
    "ui",
    "workflow",
)


def listed(module: ModuleType) -> list[str]:
    names: list[str] = getattr(module, "__all__", [])
    return names


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


def test_every_module_lists_its_names(modules: dict[str, ModuleType]) -> None:
    silent = [name for name, module in modules.items() if not hasattr(module, "__path__") and not listed(module)]
    assert silent == []


def test_every_error_stands_in_the_tree_and_can_be_imported_from_steptrail_errors() -> None:
    import steptrail.errors
    from steptrail.domain import errors

    raised = [name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, Exception)]
    assert [name for name in raised if name not in listed(errors)] == []
    assert [name for name in raised if name not in listed(steptrail.errors)] == []
    assert errors.__doc__ is not None
    assert [name for name in raised if not re.search(rf"\b{name}\b", errors.__doc__)] == []
