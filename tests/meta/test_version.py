"""The version that executions record is that of the package."""

import tomllib
from pathlib import Path

from steptrail.domain.version import VERSION


def test_the_version_in_the_domain_is_that_of_the_package(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION
