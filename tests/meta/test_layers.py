"""A layer is declared in eight places; they agree, and each module has one import name."""

import importlib
import os
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

LAYERS = ("domain", "infrastructure", "interfaces", "projections", "runtime", "testing")


def tool(root: Path, path: str) -> Any:
    """Return what `pyproject.toml` says under a path of `[tool]`."""
    value: Any = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    for key in path.split("/"):
        value = value[key]
    return value


def test_the_layers_are_the_packages_of_the_root(root: Path) -> None:
    assert sorted(init.parent.name for init in root.glob("*/__init__.py")) == list(LAYERS)


def test_each_layer_is_linked_into_the_package(root: Path) -> None:
    links = {path.name: os.readlink(path) for path in (root / "src" / "steptrail").iterdir() if path.is_symlink()}
    assert links == {layer: f"../../{layer}" for layer in LAYERS}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_refuses_its_folder_name(layer: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(root), *sys.path])
    with pytest.raises(ImportError, match=re.escape(f"import 'steptrail.{layer}', not '{layer}'")):
        importlib.import_module(layer)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_reachable_through_the_package(layer: str, root: Path) -> None:
    module = importlib.import_module(f"steptrail.{layer}")
    assert module.__file__ is not None
    assert Path(module.__file__).parent.samefile(root / layer)


def test_each_source_file_is_a_module_of_the_package(root: Path, modules: dict[str, ModuleType]) -> None:
    # A folder without `__init__.py` imports by luck, and every tool that walks packages passes it by.
    files = {path.resolve() for layer in LAYERS for path in (root / layer).rglob("*.py") if path.name != "__main__.py"}
    loaded = {Path(module.__file__).resolve() for module in modules.values() if module.__file__ is not None}
    assert sorted(files - loaded) == []


def test_each_source_file_is_loaded_under_one_name(modules: dict[str, ModuleType]) -> None:
    names: dict[str, str] = {}
    for name, module in [*modules.items(), *sys.modules.items()]:
        file: str | None = getattr(module, "__file__", None)
        if file is not None and name.split(".")[0] in {"steptrail", *LAYERS}:
            assert names.setdefault(os.path.realpath(file), name) == name


def test_pyright_reads_each_layer(root: Path) -> None:
    include: list[str] = tool(root, "pyright/include")
    assert {f"src/steptrail/{layer}" for layer in LAYERS} <= set(include)


def test_ruff_bans_each_folder_name(root: Path) -> None:
    banned: dict[str, Any] = tool(root, "ruff/lint/flake8-tidy-imports/banned-api")
    # One with a dot is no folder, but a function that nobody may call.
    folders = {name: said for name, said in banned.items() if "." not in name}
    assert folders == {layer: {"msg": f"Import steptrail.{layer}."} for layer in LAYERS}


def test_import_linter_orders_each_layer(root: Path) -> None:
    contracts: list[dict[str, Any]] = tool(root, "importlinter/contracts")
    ordered: list[str] = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert sorted(set(re.findall(r"steptrail\.(\w+)", " ".join(ordered)))) == list(LAYERS)
