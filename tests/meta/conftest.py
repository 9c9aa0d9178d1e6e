"""The files and modules of the project, as the tests about the project see them."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import steptrail

# Scripts import each other from the root of the checkout.
sys.path.append(str(Path(__file__).parents[2]))


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def project_files(root: Path) -> list[Path]:
    """Every regular file that is tracked or would be, so that a mistake is seen before it is committed."""
    # The checkout may belong to another user than the one who runs the tests, as in a container.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    paths = [root / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


@pytest.fixture(scope="session")
def modules() -> dict[str, ModuleType]:
    """Every module of the package, imported."""
    names = [module.name for module in pkgutil.walk_packages(steptrail.__path__, "steptrail.")]
    return {name: importlib.import_module(name) for name in names if not name.endswith(".__main__")}
