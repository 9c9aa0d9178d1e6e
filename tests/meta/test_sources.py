"""Files stay short enough to read, and say nothing about the machine they were written on."""

import re
from pathlib import Path

import pytest

LONGEST = 500
"""Lines. Beyond it a module holds more than one idea."""

# Spelt in pieces, or this file would be its own first finding.
PRIVATE = re.compile(
    "|".join(
        [
            "/wor" + "k/",
            "/roo" + "t/",
            r"/hom" + r"e/[a-z]+/",
            "/opt/py" + "pi",
            "/opt/whe" + "els",
            "/tmp/ve" + "nv",  # noqa: S108 - a text to look for
            r"\.\./sha" + "red",
            r"registry\.npm" + "js",
            r"pypi" + r"\.org",
            r"files\.python" + "hosted",
            r"deb\.deb" + "ian",
            r"index-u" + r"rl\s*=",
        ]
    )
)


def findings(text: str) -> list[str]:
    return [match.group() for match in PRIVATE.finditer(text)]


@pytest.mark.parametrize("text", ["see /wor" + "k/main", "https://py" + "pi.org/simple", "cd ../sha" + "red"])
def test_a_path_of_a_machine_or_the_host_of_a_registry_is_found(text: str) -> None:
    assert findings(text)


def test_an_ordinary_path_is_not_a_finding() -> None:
    assert findings("domain/agent/state.py and /srv/app/runs.db in ./workspace") == []


def test_no_file_names_a_machine_or_a_registry(project_files: list[Path], root: Path) -> None:
    found = {
        str(path.relative_to(root)): names
        for path in project_files
        if (names := findings(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert project_files
    assert found == {}


def test_no_module_is_too_long(project_files: list[Path], root: Path) -> None:
    lines = {
        str(path.relative_to(root)): len(path.read_text(encoding="utf-8").splitlines())
        for path in project_files
        if path.suffix == ".py"
    }
    assert lines
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
