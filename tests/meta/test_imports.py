"""Importing the library is cheap: model clients, database drivers and databases wait until they are used."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from scripts.wheel_smoke import HEAVY

DRIVERS = frozenset(
    {
        *("ag_ui", "anthropic", "httpx2", "mcp", "mcp_types", "openai", "psycopg", "psycopg_pool", "pusher"),
        *("cel_expr_python", "jsonschema", "sse_starlette", "starlette", "xllamacpp", "yaml"),
    }
)
TYPE_CHECKING = frozenset({"TYPE_CHECKING", "typing.TYPE_CHECKING"})


def imported_at_import_time(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the modules that running these statements imports; functions wait for their call."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPE_CHECKING:
            yield from imported_at_import_time(node.orelse)
        else:
            for field in ("body", "handlers", "orelse", "finalbody", "cases"):
                for inner in getattr(node, field, []):
                    yield from imported_at_import_time([inner] if isinstance(inner, ast.stmt) else inner.body)


def drivers_in(source: str) -> set[str]:
    return {name.split(".")[0] for name in imported_at_import_time(ast.parse(source).body)} & DRIVERS


@pytest.mark.parametrize(
    "source",
    [
        "import openai",
        "from openai.types import Model",
        "try:\n    import psycopg\nexcept ImportError:\n    psycopg = None",
        "try:\n    import json\nexcept ImportError:\n    import psycopg",
        "class Driver:\n    import xllamacpp",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import json\nelse:\n    import openai",
    ],
)
def test_an_eager_import_of_a_driver_is_seen(source: str) -> None:
    assert drivers_in(source)


@pytest.mark.parametrize(
    "source",
    [
        "def driver():\n    import openai",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from openai import AsyncOpenAI",
        "from steptrail.infrastructure.models import openai",
    ],
)
def test_a_lazy_import_of_a_driver_is_allowed(source: str) -> None:
    assert not drivers_in(source)


def test_no_module_imports_a_driver_before_it_is_used(modules: dict[str, ModuleType]) -> None:
    eager = {
        name: found
        for name, module in modules.items()
        if module.__file__ is not None and (found := drivers_in(Path(module.__file__).read_text(encoding="utf-8")))
    }
    assert eager == {}


def loaded_by(code: str, *arguments: str) -> set[str]:
    code += "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-P", "-c", code, *arguments]
    return set(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


@pytest.mark.slow("starts a process")
def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_by("import steptrail")
    assert "steptrail" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.slow("starts a process")
def test_opening_a_file_does_not_load_the_event_store_library(tmp_path: Path) -> None:
    opening = "import sys, steptrail; trail = steptrail.Steptrail.open(sys.argv[1])"
    loaded = loaded_by(opening, f"sqlite:///{tmp_path / 'runs.db'}")
    assert "sqlite3" in loaded
    assert [name for name in loaded if name.partition(".")[0] == "eventsourcing"] == []
